#include "comm/schema/number_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "comm/schema/text_pattern.h"

namespace quire {

namespace {

constexpr int kMostExponent = 99;
constexpr int kPlacesOfHuge = 40;        // exponent of the number that replaces a huge bound
constexpr int kMostCountedPlaces = 100;  // most digits that a pattern counts before or after the point
constexpr const char* kZero = "0(?:\\.0+)?(?:[eE][+-]?[0-9]{1,2})?";
constexpr const char* kUnlike = "[^\\s\\S]";  // a class that matches nothing

/// The number 0.d1d2d3... times 10^(exponent + 1), where d1 is not 0. No digits: the number 0.
struct Decimal {
  bool negative = false;
  std::string digits;
  int exponent = 0;  // exponent of the first digit
};

Decimal DecimalOf(const std::string& number) {
  Decimal out;
  int point = -1;
  size_t i = 0;
  for (; i < number.size() && number[i] != 'e' && number[i] != 'E'; ++i) {
    if (number[i] == '-') out.negative = true;
    if (number[i] == '.') point = static_cast<int>(out.digits.size());
    if (number[i] >= '0' && number[i] <= '9') out.digits += number[i];
  }
  if (point < 0) point = static_cast<int>(out.digits.size());
  const int power = i < number.size() ? std::atoi(number.c_str() + i + 1) : 0;
  const size_t first = out.digits.find_first_not_of('0');
  if (first == std::string::npos) return {};
  out.exponent = point - static_cast<int>(first) - 1 + power;
  out.digits = out.digits.substr(first, out.digits.find_last_not_of('0') + 1 - first);
  return out;
}

std::string AnyOf(const std::vector<std::string>& ways) {
  if (ways.empty()) return kUnlike;
  std::string out = "(?:";
  for (const std::string& way : ways) out += (out.size() > 3 ? "|" : "") + way;
  return out + ")";
}

/// The kinds of digits that may follow the given digits of a number.
enum class Rest { kAny, kZeros, kNotZero, kEnd };

/// Returns a pattern for positive numbers whose first nonzero digit stands at 10^place: the given digits, each a
/// pattern, then further digits as `rest` says. With kEnd, `digits` must reach the decimal point.
std::string Written(int place, const std::vector<std::string>& digits, Rest rest) {
  static constexpr const char* kTails[] = {"[0-9]*", "0*", "[0-9]*[1-9][0-9]*", ""};
  const std::string tail = kTails[static_cast<int>(rest)];
  const auto row = [&](size_t from, size_t to) {
    std::string out;
    for (size_t i = from; i < to; ++i) out += digits[i];
    return out;
  };
  if (place < 0) return fmt::format("0\\.0{{{}}}{}{}", -place - 1, row(0, digits.size()), tail);
  const auto whole = static_cast<size_t>(place) + 1;
  if (digits.size() > whole) return row(0, whole) + "\\." + row(whole, digits.size()) + tail;
  const std::string front = row(0, digits.size());
  const size_t left = whole - digits.size();
  if (rest == Rest::kAny) return fmt::format("{}[0-9]{{{}}}(?:\\.[0-9]+)?", front, left);
  if (rest == Rest::kZeros) return fmt::format("{}0{{{}}}(?:\\.0+)?", front, left);
  if (rest == Rest::kEnd) return front;
  std::vector<std::string> ways = {fmt::format("0{{{}}}\\.{}", left, tail)};
  for (size_t zeros = 0; zeros < left; ++zeros)
    ways.push_back(fmt::format("0{{{}}}[1-9][0-9]{{{}}}(?:\\.[0-9]+)?", zeros, left - 1 - zeros));
  return front + AnyOf(ways);
}

/// Returns a pattern for numbers with their first nonzero digit at 10^place. Their digits must be less (`below`) or
/// greater than the digits `bound`. Equal digits are included unless `excluded` is set.
std::string Compared(int place, const std::string& bound, bool below, bool excluded) {
  std::vector<std::string> ways, digits;
  for (size_t i = 0; i < bound.size(); ++i) {
    const char first = below ? (i == 0 ? '1' : '0') : static_cast<char>(bound[i] + 1);
    const char last = below ? static_cast<char>(bound[i] - 1) : '9';
    if (below && i > 0 && static_cast<int>(i) > place) ways.push_back(Written(place, digits, Rest::kEnd));
    if (first <= last) {
      digits.push_back(fmt::format("[{}-{}]", first, last));
      ways.push_back(Written(place, digits, Rest::kAny));
      digits.pop_back();
    }
    digits.emplace_back(1, bound[i]);
  }
  if (!below) ways.push_back(Written(place, digits, excluded ? Rest::kNotZero : Rest::kAny));
  if (below && !excluded) ways.push_back(Written(place, digits, Rest::kZeros));
  return AnyOf(ways);
}

/// Returns a pattern for exponents from `least` to `most`, but within -99 to 99, with or without a leading 0.
std::string Exponents(int least, int most) {
  least = std::max(least, -kMostExponent);
  most = std::min(most, kMostExponent);
  const auto range = [](const char* sign, int from, int to, std::vector<std::string>& ways) {
    for (int tens = from / 10; from <= to && tens <= to / 10; ++tens) {
      const int first = std::max(from, 10 * tens) % 10, last = std::min(to, 10 * tens + 9) % 10;
      ways.push_back(fmt::format("{}{}[{}-{}]", sign, tens == 0 ? "0?" : std::to_string(tens), first, last));
    }
  };
  std::vector<std::string> ways;
  if (least < 0) range("-", std::max(1, -most), -least, ways);
  if (most >= 0) range("\\+?", std::max(0, least), most, ways);
  return "[eE]" + AnyOf(ways);
}

/// Returns a pattern for positive numbers less (`below`) or greater than a positive bound. The bound itself is included
/// unless `excluded` is set.
std::string Positive(const Decimal& bound, bool below, bool excluded) {
  const int e = bound.exponent;
  std::vector<std::string> ways = {Compared(e, bound.digits, below, excluded)};
  if (!below) {
    ways.push_back(fmt::format("[1-9][0-9]{{{},}}(?:\\.[0-9]+)?", std::max(0, e + 1)));
    if (e < -1) ways.push_back(fmt::format("0\\.0{{0,{}}}[1-9][0-9]*", -e - 2));
  } else {
    if (e > 0) ways.push_back(fmt::format("[1-9][0-9]{{0,{}}}(?:\\.[0-9]+)?", e - 1));
    ways.push_back(fmt::format("0\\.0{{{},}}[1-9][0-9]*", std::max(0, -e)));
  }
  for (int place = -1; place <= 1; ++place) {
    const std::string any = Written(place, {"[1-9]"}, Rest::kAny);
    ways.push_back(Compared(place, bound.digits, below, excluded) + Exponents(e - place, e - place));
    ways.push_back(any + (below ? Exponents(-kMostExponent, e - place - 1) : Exponents(e - place + 1, kMostExponent)));
  }
  return AnyOf(ways);
}

/// Returns a pattern for all positive numbers, in the notations that Positive uses.
std::string AnyPositive() {
  return AnyOf({"[1-9][0-9]*(?:\\.[0-9]+)?", "0\\.[0-9]*[1-9][0-9]*",
                "(?:0\\.[1-9][0-9]*|[1-9][0-9]?(?:\\.[0-9]+)?)" + Exponents(-kMostExponent, kMostExponent)});
}

/// Returns the bound itself, or a narrower bound whose digits a pattern can count.
NumberBound Narrowed(const NumberBound& bound) {
  const Decimal value = DecimalOf(bound.number);
  const char* sign = value.negative ? "-" : "";
  if (value.digits.empty()) return bound;
  if (value.exponent >= kMostCountedPlaces)
    return {fmt::format("{}1e{}", sign, kPlacesOfHuge), bound.upper, bound.excluded};
  if (value.exponent >= -kMostCountedPlaces) return bound;
  if (bound.upper != value.negative) return {"0", bound.upper, false};
  return {fmt::format("{}1e-{}", sign, kMostCountedPlaces), bound.upper, bound.excluded};
}

TextAutomaton Within(const NumberBound& given) {
  const NumberBound bound = Narrowed(given);
  const Decimal value = DecimalOf(bound.number);
  const std::string zero = fmt::format("-?{}", kZero), positive = AnyPositive();
  // Numbers on the bound's side of 0 are compared with the bound. Numbers on the other side are all inside or all
  // outside.
  std::vector<std::string> ways;
  const bool is_zero = value.digits.empty();
  const bool has_zero = is_zero ? !bound.excluded : bound.upper != value.negative;
  if (has_zero) ways.push_back(zero);
  if (is_zero) {
    ways.push_back((bound.upper ? "-" : "") + positive);
  } else {
    const std::string compared = Positive(value, bound.upper != value.negative, bound.excluded);
    ways.push_back((value.negative ? "-" : "") + compared);
    if (!value.negative && bound.upper) ways.push_back("-" + positive);
    if (value.negative && !bound.upper) ways.push_back(positive);
  }
  return TextsWith("^" + AnyOf(ways) + "$");
}

TextAutomaton MultiplesOf(int64_t divisor) {
  // State 0: nothing read; state 1: after the sign; state 2 + r: the digits read until now have the remainder r.
  const auto n = static_cast<int>(divisor);
  TextAutomaton out;
  out.states.resize(static_cast<size_t>(n) + 2);
  out.states[0].edges.push_back({'-', '-', 1});
  for (int state = 0; state < n + 2; ++state) {
    TextAutomaton::State& from = out.states[static_cast<size_t>(state)];
    from.accepts = state == 2;
    const int remainder = std::max(0, state - 2);
    for (int digit = 0; digit < 10; ++digit) {
      const CodePoint sign = static_cast<CodePoint>('0' + digit);
      from.edges.push_back({sign, sign, 2 + (10 * remainder + digit) % n});
    }
  }
  return out;
}

}  // namespace

bool CanBeWritten(const NumberBound& bound) {
  const Decimal value = DecimalOf(bound.number);
  return value.digits.empty() || value.exponent < kMostCountedPlaces || bound.upper != value.negative;
}

TextAutomaton IntegerTexts(const std::vector<NumberBound>& bounds, int64_t divisor) {
  TextAutomaton out = TextsWith("^(?:0|-?[1-9][0-9]*)$");
  for (const NumberBound& bound : bounds) out = Intersection(out, Within(bound));
  return divisor == 1 ? out : Intersection(out, MultiplesOf(divisor));
}

TextAutomaton NumberTexts(const std::vector<NumberBound>& bounds) {
  if (bounds.empty()) return TextsWith("^-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$");
  TextAutomaton out = Within(bounds.front());
  for (size_t i = 1; i < bounds.size(); ++i) out = Intersection(out, Within(bounds[i]));
  return out;
}

}  // namespace quire
