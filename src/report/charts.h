// Two kinds of chart as inline SVG, drawn here so that the page needs nothing from elsewhere. Colours come
// from the page's style sheet, shapes tell the series apart without colour. Any thread.
#ifndef SLM_REPORT_CHARTS_H_
#define SLM_REPORT_CHARTS_H_

#include <optional>
#include <string>
#include <vector>

namespace slm::report {

struct Series {
  std::string label;
  int style = 0;                              // 0 to 3: colour, dash and marker
  std::vector<std::optional<double>> values;  // one for each category; absent: no mark
};

struct ChartSpec {
  std::string id;           // unique in the page, [a-z0-9-]
  std::string title;        // read by screen readers
  std::string description;  // likewise
  std::vector<std::string> categories;
  std::vector<Series> series;
};

// Lines over ordered categories, logarithmic value axis; zeros stand on the bottom line "0".
[[nodiscard]] std::string LineChart(const ChartSpec& spec);

// One row for each category, one mark for each series, logarithmic value axis.
[[nodiscard]] std::string DotChart(const ChartSpec& spec);

// The numbers behind a chart as a table, folded away.
[[nodiscard]] std::string ChartTable(const ChartSpec& spec, const std::string& category_heading);

}  // namespace slm::report

#endif  // SLM_REPORT_CHARTS_H_
