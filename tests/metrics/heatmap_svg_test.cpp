#include "hydrahead/metrics/heatmap_svg.hpp"

#include <gtest/gtest.h>

#include "tests/support/xml_check.hpp"

namespace hydra::metrics {
namespace {

Heatmap small_map() {
  Heatmap map;
  map.title = "niah & \"single\" <1>";
  map.x_name = "length";
  map.y_name = "depth";
  map.x_labels = {"128", "1024"};
  map.y_labels = {"0-10", "10-20"};
  map.cells = {{0.0, "n 4 <b>"}, {100.0, "n 4"}, {std::nullopt, "does not fit"}, {66.666, "n 3"}};
  map.legend = "4 samples a cell";
  return map;
}

TEST(XmlCheck, FindsFaults) {
  EXPECT_EQ(test::xml_problem("<a b=\"1\"><c/>x &amp; y</a>"), "");
  for (const char* bad :
       {"<a>", "<a></b>", "<a b=1/>", "<a>&</a>", "<a>1 < 2</a>", "<a/><b/>", "<a b=\"1\" b=\"2\"/>"}) {
    EXPECT_NE(test::xml_problem(bad), "") << bad;
  }
}

TEST(Heatmap, IsWellFormedAndEscaped) {
  const std::string svg = heatmap_svg(small_map());
  EXPECT_EQ(test::xml_problem(svg), "");
  EXPECT_NE(svg.find("niah &amp; &quot;single&quot; &lt;1&gt;"), std::string::npos);
  EXPECT_NE(svg.find("<title>n 4 &lt;b&gt;</title>"), std::string::npos);
  EXPECT_NE(svg.find(">66.7</text>"), std::string::npos);
  EXPECT_NE(svg.find("4 samples a cell"), std::string::npos);
  for (const char* outside : {"href", "<script", "url(", "@import", "<image"}) {
    EXPECT_EQ(svg.find(outside), std::string::npos) << outside;
  }
}

TEST(Heatmap, ZeroIsRedAndMissingIsHatched) {
  const std::string svg = heatmap_svg(small_map());
  const std::size_t missing = svg.find("<title>does not fit</title>");
  ASSERT_NE(missing, std::string::npos);
  const std::string cell = svg.substr(missing, svg.find("<title>", missing + 1) - missing);
  EXPECT_NE(cell.find("<line"), std::string::npos);
  EXPECT_EQ(cell.find("<text"), std::string::npos);
  const std::size_t zero = svg.find("<title>n 4 &lt;b&gt;</title>");
  EXPECT_NE(svg.substr(zero, 200).find("#b2182b"), std::string::npos);
}

TEST(Heatmap, FixedScale) {
  EXPECT_EQ(score_color(0), "#b2182b");
  EXPECT_EQ(score_color(50), "#f7f7f7");
  EXPECT_EQ(score_color(100), "#2166ac");
}

TEST(EscapeXml, ControlCharacters) {
  EXPECT_EQ(escape_xml(std::string("a\0b\x1b", 4)),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD");
  EXPECT_EQ(escape_xml("<&>\"'"), "&lt;&amp;&gt;&quot;&#39;");
}

}  // namespace
}  // namespace hydra::metrics
