// From pointers to members of Config to the setter and the getter of a schema row.
#pragma once

#include <optional>
#include <type_traits>

#include "src/config_schema.hpp"

namespace zero::detail {

// How a field's type is kept in a Value, and back.
template <class T>
struct Kept;
template <>
struct Kept<bool> {
  static Value to(bool x) { return x; }
  static bool from(const Value& v) { return std::get<bool>(v); }
};
template <>
struct Kept<std::int64_t> {
  static Value to(std::int64_t x) { return x; }
  static std::int64_t from(const Value& v) { return std::get<std::int64_t>(v); }
};
template <>
struct Kept<int> {  // ranges of the table keep it within an int
  static Value to(int x) { return std::int64_t{x}; }
  static int from(const Value& v) { return static_cast<int>(std::get<std::int64_t>(v)); }
};
template <>
struct Kept<double> {
  static Value to(double x) { return x; }
  static double from(const Value& v) { return std::get<double>(v); }
};
template <>
struct Kept<std::string> {
  static Value to(const std::string& x) { return x; }
  static std::string from(const Value& v) { return std::get<std::string>(v); }
};
template <>
struct Kept<std::vector<double>> {
  static Value to(const std::vector<double>& x) { return x.empty() ? Value() : Value(x); }
  static std::vector<double> from(const Value& v) { return std::get<std::vector<double>>(v); }
};
template <>
struct Kept<DType> {
  static Value to(DType x) { return std::string(dtype_name(x)); }
  static DType from(const Value& v) { return dtype_from_name(std::get<std::string>(v)).value(); }
};
template <class T>
struct Kept<std::optional<T>> {
  static Value to(const std::optional<T>& x) { return x ? Kept<T>::to(*x) : Value(); }
  static std::optional<T> from(const Value& v) { return Kept<T>::from(v); }
};

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

// The member that the pointers lead to, one step after the other. Null where an optional on the
// way is empty.
template <auto member, auto... deeper, class Object>
auto reach(Object& object) {
  auto& found = object.*member;
  if constexpr (sizeof...(deeper) == 0) {
    return &found;
  } else if constexpr (kIsOptional<std::remove_cvref_t<decltype(found)>>) {
    return found ? reach<deeper...>(*found) : nullptr;
  } else {
    return reach<deeper...>(found);
  }
}

// field<&Config::zero, &ZeroSettings::stage>()
template <auto... members>
Access field() {
  return {[](Config& config, const Value& value) {
            auto* const place = reach<members...>(config);
            if (place != nullptr) {
              *place = Kept<std::remove_reference_t<decltype(*place)>>::from(value);
            }
          },
          [](const Config& config) {
            const auto* const place = reach<members...>(config);
            return place == nullptr ? Value()
                                    : Kept<std::remove_cvref_t<decltype(*place)>>::to(*place);
          }};
}

// The answer that a member of Facts has.
template <auto member>
Value known(const Facts& facts) {
  return Kept<std::remove_cvref_t<decltype(facts.*member)>>::to(facts.*member);
}

}  // namespace zero::detail
