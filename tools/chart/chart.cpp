// SPDX-License-Identifier: BSD-3-Clause
// Axes with round ticks, lines, bands, a legend. Points that a logarithmic axis cannot show are
// left out.
#include "tools/chart/chart.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace weft::bench {
namespace {

constexpr double kWidth = 620;
constexpr double kHeight = 340;
constexpr double kLeft = 64;
constexpr double kRight = 16;
constexpr double kTop = 34;
constexpr double kBottom = 58;
constexpr double kLegendRow = 16;
constexpr const char* kStyle =
    "text{font:12px system-ui,sans-serif;fill:#444}.t{font-size:14px;font-weight:600;fill:#222}"
    ".g{stroke:#e4e4e4;fill:none}.a{stroke:#666;fill:none}.l{fill:none;stroke-width:1.8}";

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

std::string number_text(double value) {
  const double size = std::fabs(value);
  if (size >= 1e9) return format("%gG", value / 1e9);
  if (size >= 1e6) return format("%gM", value / 1e6);
  if (size >= 1e3) return format("%gk", value / 1e3);
  return format("%g", value);
}

// One axis: from data to 0..1, and where its ticks are.
struct Axis {
  bool log = false;
  double low = 0;
  double high = 1;
  std::vector<double> ticks;

  bool shows(double value) const { return std::isfinite(value) && (!log || value > 0); }
  double place(double value) const {
    const double a = log ? std::log10(low) : low;
    const double b = log ? std::log10(high) : high;
    return ((log ? std::log10(value) : value) - a) / (b - a);
  }
};

Axis make_axis(const std::vector<double>& values, bool log) {
  Axis axis{.log = log};
  double low = INFINITY;
  double high = -INFINITY;
  for (const double value : values) {
    if (!axis.shows(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (low > high) low = log ? 1 : 0, high = 10;
  if (log) {
    axis.low = std::pow(10, std::floor(std::log10(low)));
    axis.high = std::pow(10, std::max(std::ceil(std::log10(high)), std::log10(axis.low) + 1));
    for (double tick = axis.low; tick <= axis.high * 1.001; tick *= 10) axis.ticks.push_back(tick);
    return axis;
  }
  axis.low = std::min(0.0, low);
  const double span = std::max(high - axis.low, 1e-9);
  double step = std::pow(10, std::floor(std::log10(span / 4)));
  while (span / step > 6) step *= span / step > 12 ? 5 : 2;
  axis.high = axis.low + std::ceil(span / step) * step;
  for (double tick = axis.low; tick <= axis.high + step / 2; tick += step)
    axis.ticks.push_back(tick);
  return axis;
}

double x_at(const Axis& axis, double value) {
  return kLeft + axis.place(value) * (kWidth - kLeft - kRight);
}
double y_at(const Axis& axis, double value) {
  return kHeight - kBottom - axis.place(value) * (kHeight - kTop - kBottom);
}

std::string draw_axes(const Chart& chart, const Axis& x, const Axis& y) {
  std::string out =
      format("<text x='%g' y='18' class='t'>", kLeft) + escaped(chart.title) + "</text>";
  const double bottom = kHeight - kBottom;
  for (const double tick : y.ticks) {
    const double at = y_at(y, tick);
    out += format("<path class='g' d='M%g %gH%g'/>", kLeft, at, kWidth - kRight);
    out += format("<text x='%g' y='%g' text-anchor='end'>", kLeft - 6, at + 4) + number_text(tick) +
           "</text>";
  }
  const size_t count = chart.categories.empty() ? x.ticks.size() : chart.categories.size();
  for (size_t i = 0; i < count; ++i) {
    const double tick = chart.categories.empty() ? x.ticks[i] : static_cast<double>(i);
    out += format("<text x='%g' y='%g' text-anchor='middle'>", x_at(x, tick), bottom + 16) +
           (chart.categories.empty() ? number_text(tick) : escaped(chart.categories[i])) +
           "</text>";
  }
  out += format("<path class='a' d='M%g %gV%gH%g'/>", kLeft, kTop, bottom, kWidth - kRight);
  out += format("<text x='%g' y='%g' text-anchor='end'>", kWidth - kRight, bottom + 32) +
         escaped(chart.x_name) + "</text>";
  out += format("<text x='%g' y='%g'>", 4.0, kTop - 4) + escaped(chart.y_name) + "</text>";
  return out;
}

std::string draw_line(const Line& line, const Axis& x, const Axis& y) {
  std::string out;
  if (!line.low.empty()) {
    std::string area;
    const auto corner = [&](size_t i, double value) {
      const double shown = y.log ? std::max(value, y.low) : value;
      area += format("%s%.1f %.1f", area.empty() ? "M" : "L", x_at(x, line.x[i]), y_at(y, shown));
    };
    for (size_t i = 0; i < line.x.size(); ++i) corner(i, line.low[i]);
    for (size_t i = line.x.size(); i-- > 0;) corner(i, line.high[i]);
    out += "<path fill='" + colour_of(line.colour) + "' opacity='0.15' d='" + area + "Z'/>";
  }
  std::string path;
  for (size_t i = 0; i < line.x.size(); ++i) {
    if (!x.shows(line.x[i]) || !y.shows(line.y[i])) continue;
    path += format("%s%.1f %.1f", path.empty() ? "M" : "L", x_at(x, line.x[i]), y_at(y, line.y[i]));
  }
  out += "<path class='l' stroke='" + colour_of(line.colour) + "'" +
         (line.dashed ? " stroke-dasharray='5 4'" : "") + " d='" + path + "'/>";
  return out;
}

// In as many rows as it takes; `height` is that of the chart with them.
std::string draw_legend(const Chart& chart, double& height) {
  std::string out;
  double at = kLeft;
  height = kHeight;
  for (const Line& line : chart.lines) {
    if (line.name.empty()) continue;
    const double width = 34 + 6.6 * static_cast<double>(line.name.size());
    if (at > kLeft && at + width > kWidth) at = kLeft, height += kLegendRow;
    out += format("<path class='l' d='M%g %gh18' stroke='", at, height - 10) +
           colour_of(line.colour) + "'" + (line.dashed ? " stroke-dasharray='5 4'" : "") + "/>";
    out += format("<text x='%g' y='%g'>", at + 22, height - 6) + escaped(line.name) + "</text>";
    at += width;
  }
  return out;
}

}  // namespace

std::string colour_of(size_t index) {
  constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#000000", "#999933"};
  return kColours[index % std::size(kColours)];
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

std::string svg(const Chart& chart) {
  std::vector<double> xs;
  std::vector<double> ys;
  for (const Line& line : chart.lines) {
    xs.insert(xs.end(), line.x.begin(), line.x.end());
    ys.insert(ys.end(), line.y.begin(), line.y.end());
    ys.insert(ys.end(), line.high.begin(), line.high.end());
  }
  Axis x = make_axis(xs, chart.log_x);
  if (!chart.categories.empty()) {
    x.low = -0.4;
    x.high = static_cast<double>(chart.categories.size()) - 0.6;
  }
  const Axis y = make_axis(ys, chart.log_y);
  double height = 0;
  const std::string legend = draw_legend(chart, height);
  std::string out = format("<svg viewBox='0 0 %g %g' role='img'>", kWidth, height);
  out += draw_axes(chart, x, y);
  for (const Line& line : chart.lines) out += draw_line(line, x, y);
  return out + legend + "</svg>\n";
}

std::string svg_file(const Chart& chart) {
  const std::string text = svg(chart);
  const size_t inside = text.find('>') + 1;
  return "<svg xmlns='http://www.w3.org/2000/svg'" + text.substr(4, inside - 4) + "<style>" +
         kStyle + "</style>" + text.substr(inside);
}

}  // namespace weft::bench
