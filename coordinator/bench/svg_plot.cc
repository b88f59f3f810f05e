#include "coordinator/bench/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string_view>

#include "comm/base/error.h"

namespace quire {

namespace {

// Pixels. The legend stands to the right of the plot.
constexpr double kWidth = 760, kHeight = 440;
constexpr double kLeft = 76, kRight = 590, kTop = 50, kBottom = 380;
constexpr double kFontSize = 13;

// Okabe and Ito's colours, which readers with any colour vision can tell apart, and what can be read on them.
struct Paint {
  std::string_view fill, text;
};
constexpr std::array<Paint, 7> kPaints{{{"#0072b2", "#ffffff"},
                                        {"#e69f00", "#222222"},
                                        {"#009e73", "#ffffff"},
                                        {"#d55e00", "#ffffff"},
                                        {"#cc79a7", "#222222"},
                                        {"#56b4e9", "#222222"},
                                        {"#999999", "#222222"}}};

const Paint& PaintOf(size_t index) { return kPaints[index % kPaints.size()]; }
std::string_view Colour(size_t index) { return PaintOf(index).fill; }

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;  // XML has no control characters
    }
  }
  return out;
}

/// A scale with its ticks, from `begin` to `end` in pixels.
struct Axis {
  double low = 0, high = 1, begin = 0, end = 1;
  bool log2 = false;
  std::vector<double> ticks;

  double At(double value) const {
    const double share = log2 ? std::log2(value / low) / std::log2(high / low) : (value - low) / (high - low);
    return begin + share * (end - begin);
  }
};

/// Rounds the range outwards to multiples of 1, 2 or 5 times a power of ten, at most seven of them.
Axis LinearAxis(double low, double high, double begin, double end) {
  constexpr double kSteps = 6;
  if (!(high > low)) high = low + 1;
  const double rough = (high - low) / kSteps;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (factor * power >= rough) step = factor * power;
  }
  // The tolerance keeps a range that already ends on a tick from growing by one more.
  constexpr double kTolerance = 1e-9;
  const double first = std::floor(low / step + kTolerance), last = std::ceil(high / step - kTolerance);
  Axis axis{first * step, last * step, begin, end, false, {}};
  for (double tick = first; tick <= last; ++tick) axis.ticks.push_back(tick * step);
  return axis;
}

Axis Log2Axis(double low, double high, double begin, double end) {
  const double first = std::floor(std::log2(low));
  const double last = std::max(first + 1, std::ceil(std::log2(high)));
  Axis axis{std::exp2(first), std::exp2(last), begin, end, true, {}};
  for (double power = first; power <= last; ++power) axis.ticks.push_back(std::exp2(power));
  return axis;
}

/// The document under construction.
class Canvas {
 public:
  explicit Canvas(std::string_view title) {
    Put("<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
        "font-family=\"sans-serif\" font-size=\"{2}\" fill=\"#222222\">\n",
        kWidth, kHeight, kFontSize);
    Put("<title>{}</title>\n", Escaped(title));
    Put("<clipPath id=\"plot\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/></clipPath>\n", kLeft - 5, kTop,
        kRight - kLeft + 10, kBottom - kTop + 5);
    Put("<rect width=\"{}\" height=\"{}\" fill=\"#ffffff\"/>\n", kWidth, kHeight);
    Put("<text x=\"{:.1f}\" y=\"26\" text-anchor=\"middle\" font-size=\"16\" font-weight=\"bold\">{}</text>\n",
        (kLeft + kRight) / 2, Escaped(title));
  }

  template <class... Args>
  void Put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void Text(double x, double y, std::string_view anchor, std::string_view text) {
    Put("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, Escaped(text));
  }

  void YAxis(const Axis& axis, std::string_view label) {
    for (const double tick : axis.ticks) {
      const double y = axis.At(tick);
      Put("<path d=\"M{0:.1f} {1:.1f}H{2:.1f}\" stroke=\"#dddddd\"/>\n", kLeft, y, kRight);
      Text(kLeft - 8, y + 4, "end", Number(tick));
    }
    Put("<path d=\"M{:.1f} {:.1f}V{:.1f}H{:.1f}\" fill=\"none\" stroke=\"#222222\"/>\n", kLeft, kTop, kBottom, kRight);
    const double middle = (kTop + kBottom) / 2;
    Put("<text x=\"18\" y=\"{0:.1f}\" text-anchor=\"middle\" transform=\"rotate(-90 18 {0:.1f})\">{1}</text>\n", middle,
        Escaped(label));
  }

  void XAxis(const Axis& axis, std::string_view label) {
    for (const double tick : axis.ticks) {
      const double x = axis.At(tick);
      Put("<path d=\"M{:.1f} {:.1f}v5\" stroke=\"#222222\"/>\n", x, kBottom);
      Text(x, kBottom + 20, "middle", Number(tick));
    }
    Text((kLeft + kRight) / 2, kBottom + 44, "middle", label);
  }

  /// Entry `row` of `rows`, the first at the top.
  void LegendEntry(size_t row, std::string_view colour, std::string_view name) {
    const double y = kTop + 8 + 22 * static_cast<double>(row);
    Put("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"14\" height=\"14\" fill=\"{}\"/>\n", kRight + 18, y, colour);
    Text(kRight + 38, y + 12, "start", name);
  }

  std::string Finish() && { return std::move(out_) + "</svg>\n"; }

  static std::string Number(double value) { return fmt::format("{:g}", value); }

 private:
  std::string out_;
};

/// Widens [low, high] by the value.
void Include(double value, double& low, double& high) {
  QUIRE_CHECK(std::isfinite(value), "{} cannot be drawn", value);
  low = std::min(low, value);
  high = std::max(high, value);
}

}  // namespace

std::string DrawLineChart(const LineChart& chart) {
  double left = INFINITY, right = -INFINITY, low = 0, high = 0;
  for (const LineSeries& series : chart.series) {
    for (const auto& [x, y] : series.points) {
      QUIRE_CHECK(!chart.log2_x || x > 0, "{} on a logarithmic axis", x);
      Include(x, left, right);
      Include(y, low, high);
    }
  }
  if (left > right) left = 1, right = 2;  // no points
  if (chart.y_max > 0) high = chart.y_max;
  const Axis x_axis = chart.log2_x ? Log2Axis(left, right, kLeft, kRight) : LinearAxis(left, right, kLeft, kRight);
  const Axis y_axis = LinearAxis(low, high, kBottom, kTop);

  Canvas canvas(chart.title);
  canvas.YAxis(y_axis, chart.y_label);
  canvas.XAxis(x_axis, chart.x_label);
  canvas.Put("<g clip-path=\"url(#plot)\">\n");
  for (size_t i = 0; i < chart.series.size(); ++i) {
    std::string points, markers;
    for (const auto& [x, y] : chart.series[i].points) {
      const double at_x = x_axis.At(x), at_y = y_axis.At(y);
      points += fmt::format("{}{:.1f},{:.1f}", points.empty() ? "" : " ", at_x, at_y);
      markers += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", at_x, at_y, Colour(i));
    }
    canvas.Put("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n{}", points, Colour(i),
               markers);
  }
  canvas.Put("</g>\n");
  for (size_t i = 0; i < chart.series.size(); ++i) canvas.LegendEntry(i, Colour(i), chart.series[i].name);
  return std::move(canvas).Finish();
}

std::string DrawStackedBars(const StackedBarChart& chart) {
  std::vector<double> tops(chart.bars.size(), 0);
  double low = 0, high = 0;
  for (const BarLayer& layer : chart.layers) {
    QUIRE_CHECK(layer.values.size() == tops.size(), "{} values of \"{}\" for {} bars", layer.values.size(), layer.name,
                tops.size());
    for (size_t bar = 0; bar < tops.size(); ++bar) {
      QUIRE_CHECK(layer.values[bar] >= 0, "{} cannot be stacked", layer.values[bar]);
      Include(tops[bar] += layer.values[bar], low, high);
    }
  }
  // Sums of shares end a hair beside 100: that must not cost a tick.
  const Axis y_axis = LinearAxis(low, high, kBottom, kTop);

  Canvas canvas(chart.title);
  canvas.YAxis(y_axis, chart.y_label);
  const double pitch = (kRight - kLeft) / std::max<double>(1, static_cast<double>(chart.bars.size()));
  const double width = std::min(0.64 * pitch, 90.0);
  for (size_t bar = 0; bar < chart.bars.size(); ++bar) {
    const double middle = kLeft + pitch * (static_cast<double>(bar) + 0.5);
    canvas.Text(middle, kBottom + 20, "middle", chart.bars[bar]);
    double bottom = 0;
    for (size_t i = 0; i < chart.layers.size(); ++i) {
      const double value = chart.layers[i].values[bar], y = y_axis.At(bottom + value);
      const double height = y_axis.At(bottom) - y;
      canvas.Put("<rect class=\"bar\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n",
                 middle - width / 2, y, width, height, Colour(i));
      if (height >= kFontSize + 2) {
        canvas.Put("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"{}\">{:.1f}</text>\n", middle,
                   y + height / 2 + 5, PaintOf(i).text, value);
      }
      bottom += value;
    }
  }
  // As the layers lie: the top one first.
  for (size_t i = chart.layers.size(); i-- > 0;) {
    canvas.LegendEntry(chart.layers.size() - 1 - i, Colour(i), chart.layers[i].name);
  }
  return std::move(canvas).Finish();
}

}  // namespace quire
