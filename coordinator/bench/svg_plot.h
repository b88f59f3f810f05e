#pragma once

#include <string>
#include <utility>
#include <vector>

namespace quire {

/// One line of a chart: points (x, y) in the order in which they are joined, finite.
struct LineSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;
};

struct LineChart {
  std::string title, x_label, y_label;
  bool log2_x = false;  // every x is positive then, and the ticks are powers of two
  double y_max = 0;     // lines are cut there; 0: as high as the data
  std::vector<LineSeries> series;
};

/// One colour of a stacked bar chart.
struct BarLayer {
  std::string name;
  std::vector<double> values;  // one per bar, not negative
};

struct StackedBarChart {
  std::string title, y_label;
  std::vector<std::string> bars;  // names, from left to right
  std::vector<BarLayer> layers;   // from the bottom up
};

/// An SVG document that needs nothing else. The y axis begins at 0 (or below, when a value is). Text is escaped and may
/// hold any characters; it should be UTF-8.
std::string DrawLineChart(const LineChart& chart);

/// As above, with the values written into the layers that are high enough.
std::string DrawStackedBars(const StackedBarChart& chart);

}  // namespace quire
