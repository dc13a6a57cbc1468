#include "report/charts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "report/html_text.h"

namespace slm::report {
namespace {

std::string Px(double value) {
  std::array<char, 32> buffer{};
  const auto result =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, 1);
  return {buffer.data(), result.ptr};
}

// Decades that hold every positive value of the chart.
struct LogAxis {
  int low = -7;
  int high = -4;
  bool has_zero = false;

  explicit LogAxis(const std::vector<Series>& all) {
    double smallest = 0;
    double largest = 0;
    for (const Series& series : all) {
      for (const std::optional<double>& value : series.values) {
        if (!value) continue;
        if (*value <= 0) {
          has_zero = true;
          continue;
        }
        smallest = smallest == 0 ? *value : std::min(smallest, *value);
        largest = std::max(largest, *value);
      }
    }
    if (largest == 0) return;
    low = static_cast<int>(std::floor(std::log10(smallest)));
    high = std::max(low + 1, static_cast<int>(std::ceil(std::log10(largest))));
  }
  // 0 at the lowest decade, 1 at the highest; zeros lie one step below.
  [[nodiscard]] double Place(double value) const {
    if (value <= 0) return 0;
    const double decades = high - low + (has_zero ? 1 : 0);
    return (std::log10(value) - low + (has_zero ? 1 : 0)) / decades;
  }
  struct Tick {
    double place;
    std::string label;
  };
  [[nodiscard]] std::vector<Tick> Ticks() const {
    std::vector<Tick> ticks;
    if (has_zero) ticks.push_back({0, "0"});
    const int step = std::max(1, (high - low) / 6);
    for (int decade = low; decade <= high; decade += step) {
      ticks.push_back({Place(std::pow(10.0, decade)), "1e" + std::to_string(decade)});
    }
    return ticks;
  }
};

std::string Marker(int style, double x, double y) {
  const std::string cls = "class=\"m s" + std::to_string(style) + "\"";
  switch (style) {
    case 0:
      return "<circle " + cls + " cx=\"" + Px(x) + "\" cy=\"" + Px(y) + "\" r=\"4\"/>";
    case 1:
      return "<rect " + cls + " x=\"" + Px(x - 3.5) + "\" y=\"" + Px(y - 3.5) +
             "\" width=\"7\" height=\"7\"/>";
    case 2:
      return "<path " + cls + " d=\"M" + Px(x) + " " + Px(y - 5) + "l5 9h-10z\"/>";
    default:
      return "<path " + cls + " d=\"M" + Px(x) + " " + Px(y - 5) + "l5 5l-5 5l-5 -5z\"/>";
  }
}

std::string Open(const ChartSpec& spec, double width, double height, const char* cls) {
  const std::string title = spec.id + "-t";
  const std::string description = spec.id + "-d";
  return "<svg class=\"chart " + std::string(cls) + "\" viewBox=\"0 0 " + Px(width) + " " + Px(height) +
         "\" role=\"img\" aria-labelledby=\"" + title + " " + description + "\"><title id=\"" + title +
         "\">" + Escape(spec.title) + "</title><desc id=\"" + description + "\">" + Escape(spec.description) +
         "</desc>";
}

std::string Text(double x, double y, const char* anchor, const std::string& text) {
  return "<text x=\"" + Px(x) + "\" y=\"" + Px(y) + "\" text-anchor=\"" + anchor + "\">" + Escape(text) +
         "</text>";
}

std::string Legend(const ChartSpec& spec) {
  std::string out = "<ul class=\"legend\" aria-hidden=\"true\">";
  for (const Series& series : spec.series) {
    out += "<li><svg viewBox=\"0 0 28 12\" width=\"28\" height=\"12\"><path class=\"l s" +
           std::to_string(series.style) + "\" d=\"M1 6H27\"/>" + Marker(series.style, 14, 6) + "</svg>" +
           Escape(series.label) + "</li>";
  }
  return out + "</ul>";
}

}  // namespace

std::string LineChart(const ChartSpec& spec) {
  constexpr double kWidth = 760, kHeight = 300, kLeft = 56, kRight = 16, kTop = 12, kBottom = 40;
  const LogAxis axis(spec.series);
  const double plot_height = kHeight - kTop - kBottom;
  const auto y_of = [&](double value) { return kTop + plot_height * (1 - axis.Place(value)); };
  const auto n = static_cast<double>(spec.categories.size());
  const auto x_of = [&](size_t i) {
    return kLeft + (kWidth - kLeft - kRight) * (n <= 1 ? 0.5 : (static_cast<double>(i) + 0.5) / n);
  };
  std::string out = Legend(spec) + Open(spec, kWidth, kHeight, "wide");
  for (const LogAxis::Tick& tick : axis.Ticks()) {
    const double y = kTop + plot_height * (1 - tick.place);
    out += "<path class=\"grid\" d=\"M" + Px(kLeft) + " " + Px(y) + "H" + Px(kWidth - kRight) + "\"/>" +
           Text(kLeft - 8, y + 4, "end", tick.label);
  }
  const size_t every = std::max<size_t>(1, spec.categories.size() / 12);
  for (size_t i = 0; i < spec.categories.size(); i += every) {
    out += Text(x_of(i), kHeight - kBottom + 22, "middle", spec.categories[i]);
  }
  for (const Series& series : spec.series) {
    std::string path;
    std::string marks;
    for (size_t i = 0; i < series.values.size(); ++i) {
      if (!series.values[i]) continue;
      const double x = x_of(i);
      const double y = y_of(*series.values[i]);
      path += (path.empty() ? "M" : "L") + Px(x) + " " + Px(y);
      marks += Marker(series.style, x, y);
    }
    if (!path.empty())
      out += "<path class=\"l s" + std::to_string(series.style) + "\" d=\"" + path + "\"/>" + marks;
  }
  return out + "</svg>";
}

std::string DotChart(const ChartSpec& spec) {
  constexpr double kWidth = 760, kRow = 22, kLeft = 130, kRight = 20, kTop = 8, kBottom = 30;
  const LogAxis axis(spec.series);
  const double height = kTop + kBottom + kRow * static_cast<double>(spec.categories.size());
  const auto x_at = [&](double place) { return kLeft + (kWidth - kLeft - kRight) * place; };
  std::string out = Legend(spec) + Open(spec, kWidth, height, "wide");
  for (const LogAxis::Tick& tick : axis.Ticks()) {
    const double x = x_at(tick.place);
    out += "<path class=\"grid\" d=\"M" + Px(x) + " " + Px(kTop) + "V" + Px(height - kBottom) + "\"/>" +
           Text(x, height - kBottom + 18, "middle", tick.label);
  }
  for (size_t i = 0; i < spec.categories.size(); ++i) {
    const double y = kTop + kRow * (static_cast<double>(i) + 0.5);
    out += Text(kLeft - 12, y + 4, "end", spec.categories[i]);
    for (const Series& series : spec.series) {
      if (series.values[i]) out += Marker(series.style, x_at(axis.Place(*series.values[i])), y);
    }
  }
  return out + "</svg>";
}

std::string ChartTable(const ChartSpec& spec, const std::string& category_heading) {
  std::string out =
      "<details><summary>The numbers</summary><div class=\"scroll\"><table class=\"numbers\"><thead><tr><th "
      "scope=\"col\">" +
      Escape(category_heading) + "</th>";
  for (const Series& series : spec.series) out += "<th scope=\"col\">" + Escape(series.label) + "</th>";
  out += "</tr></thead><tbody>";
  for (size_t i = 0; i < spec.categories.size(); ++i) {
    out += "<tr><th scope=\"row\">" + Escape(spec.categories[i]) + "</th>";
    for (const Series& series : spec.series) {
      out += "<td>" + (series.values[i] ? ShortNumber(*series.values[i]) : std::string("&ndash;")) + "</td>";
    }
    out += "</tr>";
  }
  return out + "</tbody></table></div></details>";
}

}  // namespace slm::report
