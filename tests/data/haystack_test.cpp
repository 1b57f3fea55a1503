// What samples are made of: word lists, keys, sentences, and haystacks that are counted without tokenizing.

#include "src/data/haystack.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "hydrahead/data/corpora.hpp"
#include "src/data/niah_keys.hpp"
#include "tests/support/prose.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/tokenizers.hpp"

namespace hydra::data {
namespace {

using test::nano_tokenizer;

std::int64_t size_of(const std::vector<text::TokenId>& ids) { return static_cast<std::int64_t>(ids.size()); }

TEST(Corpora, WordListsAreSortedDistinctAndApart) {
  const Corpora words = load_corpora();
  std::set<std::string> all;
  for (const auto* list : {&words.adjectives, &words.nouns}) {
    EXPECT_TRUE(std::is_sorted(list->begin(), list->end()));
    for (const std::string& word : *list) {
      EXPECT_TRUE(all.insert(word).second) << word;
      EXPECT_TRUE(word.size() >= 3 && word.size() <= 9) << word;
      EXPECT_EQ(word.find_first_not_of("abcdefghijklmnopqrstuvwxyz"), std::string::npos) << word;
    }
  }
  EXPECT_GE(words.adjectives.size(), 400u);
  EXPECT_GE(words.nouns.size(), 1000u);
}

TEST(Corpora, FilesOfUsersReplaceTheDefaults) {
  const test::TempDir dir;
  std::ofstream(dir.path() / "adjectivelist.txt") << "tall\nfar off\ntall\n";
  std::ofstream(dir.path() / "nounlist.txt") << "tree\n";
  std::ofstream(dir.path() / "essay.json") << R"({"text": " One\n\ntwo\u00a0three.\t"})";
  const Corpora own = load_corpora(dir.path() / "essay.json", dir.path());
  EXPECT_EQ(own.adjectives, (std::vector<std::string>{"far off", "tall"}));
  EXPECT_EQ(own.essay, "One two three.");
  EXPECT_EQ(own.essay_name, "essay.json");
  EXPECT_FALSE(own.essay_is_default);
  EXPECT_NE(own.words_sha256, load_corpora().words_sha256);
  EXPECT_THROW(load_corpora(dir.path() / "none.txt"), UserError);
}

TEST(NiahKeys, UuidsAreVersion4) {
  RandomStream random(1, 2);
  for (int i = 0; i < 100; ++i) {
    const std::string uuid = random_item(ItemKind::uuids, {}, random);
    ASSERT_EQ(uuid.size(), 36u);
    EXPECT_EQ(uuid[14], '4');
    EXPECT_NE(std::string("89ab").find(uuid[19]), std::string::npos);
    EXPECT_EQ(std::count(uuid.begin(), uuid.end(), '-'), 4);
  }
}

TEST(NiahKeys, AreDistinctAndRefuseWhenWordsRunOut) {
  Corpora tiny;
  tiny.adjectives = {"big", "red"};
  tiny.nouns = {"cat", "dog", "hat", "pig"};
  KeyMaker keys(tiny, ItemKind::words);
  RandomStream random(1, 3);
  std::set<std::string> seen;
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(seen.insert(keys.next(random)).second);
  }
  EXPECT_THROW(keys.next(random), UserError);
}

TEST(EssayText, SentencesEndWhereTheyShould) {
  for (const char* word : {"end.", "end?", "end!\"", "end.\u201d", "end.)", "1815.", "etc.,x."}) {
    EXPECT_TRUE(ends_sentence(word)) << word;
  }
  for (const char* word : {"end", "Mr.", "(Mrs.", "e.g.", "I.", "J.", "end,", "end.,", "\"", "St."}) {
    EXPECT_FALSE(ends_sentence(word)) << word;
  }
}

TEST(EssayText, CountsAndTextRepeatWithoutEnd) {
  const std::string folded = "One two. Three four five! Six";
  const EssayText essay(folded, nano_tokenizer());
  ASSERT_EQ(essay.words(), 6);
  std::string text;
  essay.append(4, 14, text);
  EXPECT_EQ(text, "five! Six One two. Three four five! Six One two.");
  EXPECT_EQ(essay.tokens(4, 14), size_of(nano_tokenizer().encode(" " + text)));
  EXPECT_EQ(essay.sentences(4, 14), 4);  // five! | Six One two. | Three four five! | Six One two.
  EXPECT_EQ(essay.sentence_start(4, 14, 0), 4);
  EXPECT_EQ(essay.sentence_start(4, 14, 1), 5);
  EXPECT_EQ(essay.sentence_start(4, 14, 2), 8);
  EXPECT_EQ(essay.sentence_start(4, 14, 3), 11);
  EXPECT_EQ(essay.sentence_start(4, 14, 4), 14);
  EXPECT_EQ(essay.sentences(0, 1), 1);
}

TEST(NiahHaystack, CountsEqualTokenizing) {
  const std::string prose = test::make_prose(30000, 1);
  const EssayText essay(prose, nano_tokenizer());
  const std::vector<std::string> needles = {needle_sentence(ItemKind::numbers, "tall-tree", "1234567"),
                                            needle_sentence(ItemKind::numbers, "red-hat", "7654321")};
  const EssayHaystack haystack(essay, essay.words() - 10, 100, needles, nano_tokenizer());  // over the end of the text
  for (std::int64_t units = 5; units < 60; ++units) {
    const std::int64_t places = haystack.places(units);
    for (const auto& positions : std::vector<std::vector<std::int64_t>>{
             {0, 0}, {0, places}, {places, places}, {places / 2, places / 2}, {0, places / 2}}) {
      const std::string text = haystack.text(units, positions) + "\n";
      EXPECT_EQ(text.find("  "), std::string::npos);
      EXPECT_NE(text.front(), ' ');
      EXPECT_EQ(haystack.tokens(units, positions), size_of(nano_tokenizer().encode(text))) << text;
    }
  }
}

TEST(NiahHaystack, FitTakesAsManyUnitsAsFit) {
  const auto three_each = [](std::int64_t units) { return 3 * units + 1; };
  EXPECT_EQ(fit_units(1, 1000, 100, three_each), 33);
  EXPECT_EQ(fit_units(1, 20, 100, three_each), 20);
  EXPECT_EQ(fit_units(40, 1000, 100, three_each), 0);
}

}  // namespace
}  // namespace hydra::data
