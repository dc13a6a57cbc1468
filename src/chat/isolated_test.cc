// TPL-01: conversion in a child process; its death is an error of the template, never of the caller.
#include "chat/isolated.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>

namespace slm::chat {
namespace {

TEST(CompileIsolated, GivesTheSameIrAsCompilingHere) {
  const std::string source = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
  const auto isolated = CompileIsolated(source);
  ASSERT_TRUE(isolated.has_value()) << isolated.error().ToString();
  EXPECT_EQ(isolated->Serialize(), Template::Compile(source)->Serialize());
}

TEST(CompileIsolated, GivesTheSameErrorWithItsPlace) {
  for (const char* source : {"{% include 'x' %}", "{{ 1", "ab\xc3(", "{% if x %}"}) {
    const auto isolated = CompileIsolated(source);
    const auto here = Template::Compile(source);
    ASSERT_FALSE(isolated.has_value());
    EXPECT_EQ(isolated.error().code, here.error().code);
    EXPECT_EQ(isolated.error().message, here.error().message);
    EXPECT_EQ(isolated.error().byte_offset, here.error().byte_offset);
  }
}

TEST(CompileIsolated, TheParentSurvivesTheChildsDeath) {
  std::string source;
  for (int i = 0; i < 140'000; ++i) source += "{{ x }}";
  IsolationLimits limits;
  limits.address_space_bytes = 0;  // the child cannot map another page
  const auto starved = CompileIsolated(source, limits);
  ASSERT_FALSE(starved.has_value());
  EXPECT_EQ(starved.error().code, ErrorCode::kTplBound);
  EXPECT_NE(starved.error().message.find("process"), std::string::npos);
  limits = {};
  limits.ir_bytes = 100;
  EXPECT_EQ(CompileIsolated(source, limits).error().code, ErrorCode::kTplBound);
  EXPECT_TRUE(CompileIsolated("still here").has_value());
}

// A limit that the user's shell sets is the environment's, not a fault of the template.
TEST(CompileIsolatedDeathTest, ALimitOfTheCallerIsNoFaultOfTheTemplate) {
  std::string source;
  for (int i = 0; i < 1000; ++i) source += "{{ x }}";
  const auto run_cramped = [&source] {
    rlimit limit{};
    limit.rlim_cur = limit.rlim_max = 1 << 20;  // less than is mapped already
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(1);
    const auto compiled = CompileIsolated(source);
    _exit(!compiled && compiled.error().code == ErrorCode::kMemory ? 0 : 2);
  };
  EXPECT_EXIT(run_cramped(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace slm::chat
