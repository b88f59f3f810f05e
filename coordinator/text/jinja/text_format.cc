// Python's str.format and text % value.
#include <fmt/printf.h>

#include <algorithm>
#include <cmath>

#include "comm/base/error.h"
#include "coordinator/text/jinja/text_functions.h"

namespace quire::jinja {

namespace {

constexpr const char* kDigits = "0123456789";
constexpr size_t kMaxPlaceWidth = 1000;  // limit of a width or precision

/// Finds the argument of a placeholder: the next argument, or the argument with the placeholder's number or name.
class FormatArguments {
 public:
  FormatArguments(const List& positional, const NamedArguments& named) : positional_(positional), named_(named) {}

  const Value& Of(const std::string& place) {
    const bool counted = place.empty(), numbered = !counted && place.find_first_not_of(kDigits) == std::string::npos;
    counts_ |= counted;
    numbers_ |= numbered;
    if (counts_ && numbers_) Fail("format: places with a number and without one");
    if (counted || numbered) {
      const size_t number = counted ? next_++ : place.size() > 4 ? SIZE_MAX : std::stoul(place);
      if (number >= positional_.size()) Fail("format: no argument for {{{}}}", place.substr(0, 20));
      return positional_[number];
    }
    const auto found = std::ranges::find(named_, place, &NamedArguments::value_type::first);
    if (found == named_.end()) Fail("format: {{{}}} has no argument or is not supported", place.substr(0, 100));
    return found->second;
  }

 private:
  const List& positional_;
  const NamedArguments& named_;
  size_t next_ = 0;
  bool counts_ = false, numbers_ = false;
};

/// A placeholder: %[(name)][flags][width][.precision]conversion.
struct Place {
  std::string name, flags;
  size_t width = 0;
  std::optional<size_t> precision;
  char conversion = 0;
  bool named = false;
};

/// Reads a placeholder after "%" and moves `at` past it.
class PlaceReader {
 public:
  PlaceReader(const std::string& format, size_t& at) : format_(format), at_(at) {}

  Place Read() {
    Place place;
    if (Next() == '(') {
      const size_t end = format_.find(')', at_);
      if (end == std::string::npos) Fail("'%': a name does not end");
      place.name = format_.substr(at_ + 1, end - at_ - 1);
      place.named = true;
      at_ = end + 1;
    }
    while (std::string_view("#0- +").find(Next()) != std::string_view::npos) place.flags += format_[at_++];
    place.width = Number();
    if (Next() == '.') {
      ++at_;
      place.precision = Number();
    }
    place.conversion = Next();
    ++at_;
    return place;
  }

 private:
  char Next() const {
    if (at_ >= format_.size()) Fail("'%': a format ends in the middle of a place");
    return format_[at_];
  }
  size_t Number() {
    size_t number = 0;
    for (; Next() >= '0' && Next() <= '9'; ++at_) {
      number = number * 10 + static_cast<size_t>(Next() - '0');
      if (number > kMaxPlaceWidth) Fail("'%': a width or precision beyond {}", kMaxPlaceWidth);
    }
    return number;
  }

  const std::string& format_;
  size_t& at_;
};

MarkedText PutText(const MarkedText& text, const Place& place, Budget& budget) {
  budget.MakeText(text.text.size() + place.width);
  const CharacterIndex characters(text.text, budget);
  const int64_t size = place.precision ? std::min<int64_t>(characters.size(), static_cast<int64_t>(*place.precision))
                                       : characters.size();
  const MarkedText shown = text.Substring(0, characters.Begin(size));
  const auto width = static_cast<int64_t>(place.width);
  const MarkedText blanks(std::string(static_cast<size_t>(std::max<int64_t>(0, width - size)), ' '),
                          MarkedText::kTrusted);
  const bool left = place.flags.find('-') != std::string::npos;
  MarkedText out = left ? shown : blanks;
  out += left ? blanks : shown;
  return out;
}

std::string PutNumber(const Value& value, const Place& place) {
  std::string spec = "%" + place.flags;
  if (place.width > 0) spec += std::to_string(place.width);
  if (place.precision) spec += fmt::format(".{}", *place.precision);
  if (std::string_view("fFeEgG").find(place.conversion) != std::string_view::npos)
    return fmt::sprintf(spec + place.conversion, value.Number());
  const bool decimal = std::string_view("diu").find(place.conversion) != std::string_view::npos;
  int64_t whole = 0;
  if (const double* d = value.As<double>(); d != nullptr && decimal) {
    if (!(std::abs(*d) < 0x1p63)) Fail("'%{}': {} is out of range", place.conversion, *d);
    whole = static_cast<int64_t>(*d);
  } else {
    whole = value.Integer("'%'");
  }
  if (decimal) return fmt::sprintf(spec + "d", whole);
  // Python writes a minus sign before hexadecimal and octal digits; C would print the number's two's complement.
  if (whole < 0) Fail("'%{}' of a negative number is not supported", place.conversion);
  return fmt::sprintf(spec + place.conversion, whole);
}

}  // namespace

MarkedText Format(const MarkedText& text, const List& positional, const NamedArguments& named, Budget& budget) {
  const std::string& format = text.text;
  FormatArguments arguments(positional, named);
  budget.Walk(format.size());
  budget.MakeText(format.size());
  MarkedText out;
  for (size_t at = 0; at < format.size();) {
    const size_t brace = std::min(format.find_first_of("{}", at), format.size());
    out += text.Substring(at, brace - at);
    if (brace == format.size()) break;
    if (format.substr(brace, 2) == std::string(2, format[brace])) {
      out += text.Substring(brace, 1);
      at = brace + 2;
      continue;
    }
    const size_t end = format[brace] == '{' ? format.find('}', brace) : std::string::npos;
    if (end == std::string::npos) Fail("format: a single {} stands for nothing", format[brace]);
    const TextPointer value = arguments.Of(format.substr(brace + 1, end - brace - 1)).ToText(budget);
    budget.MakeText(value->text.size());
    out += *value;
    budget.CheckText(out.text.size());
    at = end + 1;
  }
  return out;
}

MarkedText FormatPercent(const MarkedText& text, const Value& value, Budget& budget) {
  const std::string& format = text.text;
  const List one = {value};
  const List& arguments = value.AsList() != nullptr ? *value.AsList() : one;
  size_t next = 0;
  budget.Walk(format.size());
  budget.MakeText(format.size());
  MarkedText out;
  for (size_t at = 0; at < format.size();) {
    const size_t percent = std::min(format.find('%', at), format.size());
    out += text.Substring(at, percent - at);
    if (percent == format.size()) break;
    at = percent + 1;
    const Place place = PlaceReader(format, at).Read();
    if (place.conversion == '%') {
      out += MarkedText("%", MarkedText::kTrusted);
      continue;
    }
    if (std::string_view("srdiuxXofFeEgG").find(place.conversion) == std::string_view::npos)
      Fail("'%{}' is not supported", place.conversion);
    const Value* argument = nullptr;
    if (place.named) {
      argument = value.AsDict() != nullptr ? value.AsDict()->Find(place.name, budget) : nullptr;
    } else if (next < arguments.size()) {
      argument = &arguments[next++];
    }
    if (argument == nullptr) Fail("'%{}' has no argument", place.conversion);
    if (place.conversion == 's') {
      out += PutText(*argument->ToText(budget), place, budget);
    } else if (place.conversion == 'r') {
      out += PutText(*argument->ToReprText(budget), place, budget);
    } else {
      out += MarkedText(PutNumber(*argument, place), MarkedText::kTrusted);
    }
    budget.MakeText(place.width);
    budget.CheckText(out.text.size());
  }
  if (next < arguments.size() && value.AsDict() == nullptr) Fail("'%': more arguments than places");
  return out;
}

}  // namespace quire::jinja
