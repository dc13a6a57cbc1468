// ACQ-05: cases E01 to E11 of the malformed-input catalogue, and the two published pointers.
#include "acquire/lfs_pointer.h"

#include <gtest/gtest.h>

#include "acquire/test_source.h"

namespace slm::acquire {
namespace {

constexpr char kOid[] = "9be78edb00000000000000000000000000000000000000000000000000000001";

std::string Good() {
  return "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(kOid) + "\nsize 548123560\n";
}

void ExpectNoncanonical(const std::string& text, size_t byte_offset) {
  const auto pointer = ParseLfsPointer(AsBytes(text));
  ASSERT_FALSE(pointer.has_value()) << text;
  EXPECT_EQ(pointer.error().CodeText(), "LFS-NONCANONICAL");
  EXPECT_EQ(pointer.error().byte_offset, byte_offset) << text;
}

TEST(LfsPointerTest, Acq05ReadsAndReEncodes) {
  const auto pointer = ParseLfsPointer(AsBytes(Good()));
  ASSERT_TRUE(pointer.has_value()) << pointer.error().ToString();
  EXPECT_EQ(ToHex(pointer->oid), kOid);
  EXPECT_EQ(pointer->size, 548123560u);
  EXPECT_EQ(EncodeLfsPointer(*pointer), Good());
  EXPECT_EQ(Good().size(), 134u);  // the published pointer of a file of this size has 134 bytes
  EXPECT_TRUE(LooksLikeLfsPointer(AsBytes(Good())));
}

TEST(LfsPointerTest, Acq05E01ToE11Noncanonical) {
  const std::string good = Good();
  ExpectNoncanonical(Replaced(good, "v1\n", "v1\r\n"), 42);                               // E01
  ExpectNoncanonical(Replaced(good, "9be78edb", "9BE78EDB"), good.find("9be") + 1);       // E02
  ExpectNoncanonical(Replaced(good, "size 5", "size +5"), good.find("548"));              // E03
  ExpectNoncanonical(Replaced(good, "548123560", "007"), good.find("548"));               // E04
  ExpectNoncanonical(Replaced(good, "sha256", "sha1"), good.find("sha256") + 3);          // E05
  ExpectNoncanonical(Replaced(good, "oid", "ext-0-x sha256:ab\noid"), good.find("oid"));  // E06
  ExpectNoncanonical(Replaced(good, "oid sha256:" + std::string(kOid) + "\nsize 548123560",
                              "size 548123560\noid sha256:" + std::string(kOid)),
                     good.find("oid"));                                               // E07
  ExpectNoncanonical(good.substr(0, good.size() - 1), good.size() - 1);               // E08
  ExpectNoncanonical(Replaced(good, "git-lfs.github.com", "hawser.github.com"), 16);  // E09
  ExpectNoncanonical(good + std::string(1024 - good.size(), ' '), 1023);              // E10
  ExpectNoncanonical(good + "\n", good.size());                                       // E11
  ExpectNoncanonical(Replaced(good, "548123560", "0"), good.find("548"));
  ExpectNoncanonical(Replaced(good, "548123560", "18446744073709551616"), good.find("548"));
  ExpectNoncanonical("", 0);
}

TEST(LfsPointerTest, Acq05AliasesStillMeanToBePointers) {
  EXPECT_TRUE(LooksLikeLfsPointer(AsBytes(Replaced(Good(), "git-lfs.github.com", "hawser.github.com"))));
  EXPECT_FALSE(LooksLikeLfsPointer(AsBytes(Good() + std::string(1024, ' '))));
  EXPECT_FALSE(LooksLikeLfsPointer(AsBytes(std::string_view("version 1\n"))));
}

}  // namespace
}  // namespace slm::acquire
