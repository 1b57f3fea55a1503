#pragma once
// What the SVG pictures share: formatted numbers, the white sheet with its title for screen readers, text.

#include <array>
#include <cstdio>
#include <string>

#include "hydrahead/metrics/heatmap_svg.hpp"

namespace hydra::metrics {

// printf; at most 511 characters.
template <class... Args>
std::string formatted(const char* format, Args... args) {
  std::array<char, 512> text{};
  std::snprintf(text.data(), text.size(), format, args...);
  return text.data();
}

// Opens a picture of that many pixels.
inline std::string svg_begin(double width, double height, const std::string& title) {
  return formatted(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
             "font-family=\"system-ui, sans-serif\" font-size=\"12\" role=\"img\">\n",
             width, height, width, height) +
         "<title>" + escape_xml(title) + "</title>\n" +
         formatted("<rect width=\"%.0f\" height=\"%.0f\" fill=\"#ffffff\"/>\n", width, height);
}

// attributes: further ones of the <text>, or "".
inline std::string text_at(double x, double y, const char* anchor, const std::string& attributes,
                           const std::string& content) {
  return formatted("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" ", x, y, anchor) + attributes + ">" +
         escape_xml(content) + "</text>\n";
}
inline std::string title_at_top(const std::string& title) {
  return text_at(12, 20, "start", "font-size=\"15\" font-weight=\"600\" fill=\"#1a1a1a\"", title);
}

}  // namespace hydra::metrics
