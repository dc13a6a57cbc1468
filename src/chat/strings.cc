#include "chat/strings.h"

#include <algorithm>

#include "base/utf8.h"
#include "chat/format.h"
#include "chat/lexer.h"
#include "unicode/python_v14_0.h"

namespace slm::chat {
namespace {

using unicode::CaseMapping;
using unicode::PythonFlagsV14;

constexpr char32_t kCapitalSigma = 0x3a3;

Value Finish(Runtime& runtime, const TextBuilder& text, const Value& receiver) {
  const Value made = runtime.Make(text);
  return made.failed() ? made : made.WithFlag(receiver.is_markup());
}

Value Part(Runtime& runtime, const Value& string, uint64_t begin, uint64_t end) {
  return runtime.heap().Slice(string, begin, end).WithFlag(string.is_markup());
}

// Byte where the scalar that ends at `end` begins.
size_t PreviousScalar(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

// Whether a capital sigma at [begin, end) is the last letter of a word.
bool IsFinalSigma(std::string_view text, size_t begin, size_t end) {
  bool before = false;
  for (size_t at = begin; at > 0;) {
    at = PreviousScalar(text, at);
    size_t next = at;
    const uint16_t flags = PythonFlagsV14(DecodeUtf8(text, &next));
    if ((flags & unicode::kPythonCaseIgnorable) != 0) continue;
    before = (flags & unicode::kPythonCased) != 0;
    break;
  }
  if (!before) return false;
  for (size_t at = end; at < text.size();) {
    const uint16_t flags = PythonFlagsV14(DecodeUtf8(text, &at));
    if ((flags & unicode::kPythonCaseIgnorable) != 0) continue;
    return (flags & unicode::kPythonCased) == 0;
  }
  return true;
}

void AppendMapped(TextBuilder* out, std::string_view text, char32_t c, size_t begin, size_t end,
                  CaseMapping mapping, Owner owner) {
  if (c == kCapitalSigma && mapping == CaseMapping::kLower) {
    out->AppendScalar(IsFinalSigma(text, begin, end) ? 0x3c2 : 0x3c3, owner);
    return;
  }
  char32_t mapped[3];
  const uint32_t n = unicode::MapCaseV14(c, mapping, mapped);
  for (uint32_t i = 0; i < n; ++i) out->AppendScalar(mapped[i], owner);
}

Value ChangeAsciiCase(Runtime& runtime, const Value& string, bool upper) {
  TextBuilder out;
  ForEachSegment(string.text(), 0, string.text().size, [&](std::string_view part, Owner owner) {
    std::string changed(part);
    for (char& c : changed) {
      if (upper && c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
      if (!upper && c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    }
    out.Append(changed, owner);
  });
  return Finish(runtime, out, string);
}

// Byte offsets of the range [start, end) that find, count and startswith take, in code points.
struct ByteRange {
  uint64_t begin = 0, end = 0;
  bool empty = false;  // start lies beyond end: nothing matches, not even the empty string
};

bool ReadRange(Runtime& runtime, const CallArguments& arguments, const Value& receiver, ByteRange* range) {
  const Text& text = runtime.Flat(receiver);
  range->end = text.size;
  int64_t bounds[2] = {0, INT64_MAX};
  for (size_t i = 0; i < 2; ++i) {
    if (arguments.positional.size() <= i + 1 || arguments.positional[i + 1].is_none()) continue;
    const auto index = AsIndex(arguments.positional[i + 1]);
    if (!index) {
      runtime.RaiseType("slice indices must be integers or None or have an __index__ method");
      return false;
    }
    bounds[i] = *index;
  }
  if (arguments.positional.size() < 2) return true;
  const auto length = static_cast<int64_t>(text.CountedScalars());
  for (int64_t& bound : bounds) {
    if (bound < 0) bound = std::max<int64_t>(0, bound + length);
  }
  bounds[1] = std::min(bounds[1], length);
  range->empty = bounds[0] > bounds[1];
  if (range->empty) return true;
  size_t at = 0;
  int64_t n = 0;
  for (; n < bounds[0]; ++n) (void)DecodeUtf8(text.view(), &at);
  range->begin = at;
  for (; n < bounds[1]; ++n) (void)DecodeUtf8(text.view(), &at);
  range->end = at;
  return runtime.Work(text.size / 64);
}

Value Split(Runtime& runtime, const Value& receiver, const CallArguments& arguments, bool from_right) {
  Value given[2];
  if (!Bind(runtime, from_right ? "rsplit" : "split", arguments, {"sep", "maxsplit"}, 0, given))
    return Value::Error();
  int64_t left = INT64_MAX;
  if (!given[1].is_missing()) {
    const auto count = AsArgument(runtime, given[1], CType::kSize);
    if (!count) return Value::Error();
    if (*count >= 0) left = *count;
  }
  const std::string_view text = runtime.View(receiver);
  if (!runtime.Work(text.size() / 16)) return Value::Error();
  std::vector<Value> parts;
  const auto add = [&](size_t begin, size_t end) { parts.push_back(Part(runtime, receiver, begin, end)); };
  if (given[0].is_missing() || given[0].is_none()) {
    std::vector<std::pair<size_t, size_t>> words;
    size_t begin = std::string_view::npos;
    for (size_t at = 0; at < text.size();) {
      const size_t here = at;
      const bool space = IsPythonSpace(DecodeUtf8(text, &at));
      if (space && begin != std::string_view::npos) {
        words.emplace_back(begin, here);
        begin = std::string_view::npos;
      } else if (!space && begin == std::string_view::npos) {
        begin = here;
      }
    }
    if (begin != std::string_view::npos) words.emplace_back(begin, text.size());
    const size_t n = words.size();
    const size_t most = left >= static_cast<int64_t>(n) ? n : static_cast<size_t>(left);
    if (n > most && !from_right) {
      // The rest keeps its white space but for what precedes its first word.
      for (size_t i = 0; i < most; ++i) add(words[i].first, words[i].second);
      add(words[most].first, text.size());
    } else if (n > most) {
      add(0, words[n - most - 1].second);
      for (size_t i = n - most; i < n; ++i) add(words[i].first, words[i].second);
    } else {
      for (const auto& [low, high] : words) add(low, high);
    }
    return runtime.heap().List(parts, receiver.owner());
  }
  if (!given[0].is_string()) {
    return runtime.RaiseType("must be str or None, not " + std::string(TypeName(given[0])));
  }
  const std::string_view separator = runtime.View(given[0]);
  if (separator.empty()) return runtime.Raise("ValueError", "empty separator");
  if (from_right) {
    size_t end = text.size();
    while (left-- > 0 && end >= separator.size()) {
      const size_t found = text.substr(0, end).rfind(separator);
      if (found == std::string_view::npos) break;
      add(found + separator.size(), end);
      end = found;
    }
    add(0, end);
    std::reverse(parts.begin(), parts.end());
  } else {
    size_t begin = 0;
    while (left-- > 0) {
      const size_t found = text.find(separator, begin);
      if (found == std::string_view::npos) break;
      add(begin, found);
      begin = found + separator.size();
    }
    add(begin, text.size());
  }
  if (!runtime.Work(parts.size())) return Value::Error();
  return runtime.heap().List(parts, receiver.owner());
}

Value HasAffix(Runtime& runtime, const Value& receiver, const CallArguments& arguments, bool at_start) {
  const char* name = at_start ? "startswith" : "endswith";
  if (!BindPositional(runtime, name, arguments, 1, 3)) return Value::Error();
  ByteRange range;
  if (!ReadRange(runtime, arguments, receiver, &range)) return Value::Error();
  const std::string_view text = runtime.View(receiver).substr(range.begin, range.end - range.begin);
  const Value& affix = arguments.positional[0];
  const auto matches = [&](const Value& one) {
    const std::string_view sign = runtime.View(one);
    return !range.empty && (at_start ? text.starts_with(sign) : text.ends_with(sign));
  };
  if (affix.is_string()) return Value::Bool(matches(affix));
  if (affix.kind() != ValueKind::kTuple) {
    return runtime.RaiseType(std::string(name) + " first arg must be str or a tuple of str, not " +
                             std::string(TypeName(affix)));
  }
  for (const Value& one : affix.list()) {
    if (!one.is_string()) {
      return runtime.RaiseType(std::string("tuple for ") + name + " must only contain str, not " +
                               std::string(TypeName(one)));
    }
    if (matches(one)) return Value::Bool(true);
  }
  return Value::Bool(false);
}

// find, rfind, index, rindex, count.
Value Search(Runtime& runtime, AttributeId id, const Value& receiver, const CallArguments& arguments) {
  const std::string_view name = AttributeName(id);
  if (!BindPositional(runtime, name, arguments, 1, 3)) return Value::Error();
  if (!arguments.positional[0].is_string()) {
    return runtime.RaiseType("must be str, not " + std::string(TypeName(arguments.positional[0])));
  }
  ByteRange range;
  if (!ReadRange(runtime, arguments, receiver, &range)) return Value::Error();
  const std::string_view all = runtime.View(receiver);
  const std::string_view text = all.substr(range.begin, range.end - range.begin);
  const std::string_view wanted = runtime.View(arguments.positional[0]);
  if (!runtime.Work(text.size() / 16)) return Value::Error();
  if (id == AttributeId::count) {
    int64_t n = 0;
    if (range.empty) return Value::Integer(0);
    if (wanted.empty()) return Value::Integer(static_cast<int64_t>(CountScalars(text)) + 1);
    for (size_t at = text.find(wanted); at != std::string_view::npos;
         at = text.find(wanted, at + wanted.size()))
      ++n;
    return Value::Integer(n);
  }
  const bool from_right = id == AttributeId::rfind || id == AttributeId::rindex;
  size_t found = std::string_view::npos;
  if (!range.empty) found = from_right ? text.rfind(wanted) : text.find(wanted);
  if (found != std::string_view::npos) {
    return Value::Integer(static_cast<int64_t>(CountScalars(all.substr(0, range.begin + found))));
  }
  if (id == AttributeId::find || id == AttributeId::rfind) return Value::Integer(-1);
  return runtime.Raise("ValueError", "substring not found");
}

Value Join(Runtime& runtime, const Value& receiver, const CallArguments& arguments) {
  if (!BindPositional(runtime, "join", arguments, 1, 1)) return Value::Error();
  if (!Runtime::IsIterable(arguments.positional[0])) return runtime.RaiseType("can only join an iterable");
  std::vector<Value> items;
  if (!runtime.Collect(arguments.positional[0], &items)) return Value::Error();
  TextBuilder out;
  const Text& separator = runtime.Flat(receiver);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) AppendText(&out, separator);
    Value item = items[i];
    if (receiver.is_markup()) {
      item = runtime.Escape(item);
      if (item.failed()) return item;
    }
    if (!item.is_string()) {
      return runtime.RaiseType("sequence item " + std::to_string(i) + ": expected str instance, " +
                               std::string(TypeName(item)) + " found");
    }
    AppendText(&out, runtime.Flat(item));
    if (!runtime.MayAllocate(out.size())) return Value::Error();
  }
  return Finish(runtime, out, receiver);
}

Value Partition(Runtime& runtime, const Value& receiver, const CallArguments& arguments, bool from_right) {
  if (!BindPositional(runtime, from_right ? "rpartition" : "partition", arguments, 1, 1))
    return Value::Error();
  if (!arguments.positional[0].is_string()) {
    return runtime.RaiseType("must be str, not " + std::string(TypeName(arguments.positional[0])));
  }
  const std::string_view text = runtime.View(receiver);
  const std::string_view separator = runtime.View(arguments.positional[0]);
  if (separator.empty()) return runtime.Raise("ValueError", "empty separator");
  const size_t found = from_right ? text.rfind(separator) : text.find(separator);
  if (found == std::string_view::npos) {
    const Value nothing = runtime.heap().Borrow("", receiver.owner()).WithFlag(receiver.is_markup());
    if (from_right) return runtime.heap().Tuple({nothing, nothing, receiver});
    return runtime.heap().Tuple({receiver, nothing, nothing});
  }
  return runtime.heap().Tuple({Part(runtime, receiver, 0, found),
                               Part(runtime, receiver, found, found + separator.size()),
                               Part(runtime, receiver, found + separator.size(), text.size())});
}

Value Pad(Runtime& runtime, const Value& string, int64_t left, int64_t right, std::string_view fill) {
  if (left <= 0 && right <= 0) return string;
  const uint64_t bytes =
      static_cast<uint64_t>(std::max<int64_t>(left, 0) + std::max<int64_t>(right, 0)) * fill.size();
  if (!runtime.MayAllocate(bytes) || !runtime.Work(bytes / 64)) return Value::Error();
  TextBuilder out;
  std::string padding;
  for (int64_t i = 0; i < left; ++i) padding += fill;
  out.Append(padding, kTemplateOwner);
  AppendText(&out, runtime.Flat(string));
  padding.clear();
  for (int64_t i = 0; i < right; ++i) padding += fill;
  out.Append(padding, kTemplateOwner);
  return Finish(runtime, out, string);
}

Value PadTo(Runtime& runtime, AttributeId id, const Value& receiver, const CallArguments& arguments) {
  if (!BindPositional(runtime, AttributeName(id), arguments, 1, 2)) return Value::Error();
  const auto width = AsArgument(runtime, arguments.positional[0], CType::kSize);
  if (!width) return Value::Error();
  std::string_view fill = " ";
  if (arguments.positional.size() > 1) {
    const Value& given = arguments.positional[1];
    if (!given.is_string()) {
      return runtime.RaiseType("The fill character must be a unicode character, not " +
                               std::string(TypeName(given)));
    }
    fill = runtime.View(given);
    if (CountScalars(fill) != 1)
      return runtime.RaiseType("The fill character must be exactly one character long");
  }
  const auto length = static_cast<int64_t>(runtime.Flat(receiver).CountedScalars());
  if (*width <= length) return receiver;
  if (static_cast<uint64_t>(*width) > runtime.budgets().max_heap_bytes)
    return runtime.OverBudget("a padded text");
  const int64_t missing = *width - length;
  if (id == AttributeId::ljust) return Pad(runtime, receiver, 0, missing, fill);
  if (id == AttributeId::rjust) return Pad(runtime, receiver, missing, 0, fill);
  const int64_t left = missing / 2 + (missing & *width & 1);
  return Pad(runtime, receiver, left, missing - left, fill);
}

Value ZeroFill(Runtime& runtime, const Value& receiver, const CallArguments& arguments) {
  if (!BindPositional(runtime, "zfill", arguments, 1, 1)) return Value::Error();
  const auto width = AsArgument(runtime, arguments.positional[0], CType::kSize);
  if (!width) return Value::Error();
  const Text& text = runtime.Flat(receiver);
  const auto length = static_cast<int64_t>(text.CountedScalars());
  if (*width <= length) return receiver;
  const auto zeros = static_cast<uint64_t>(*width - length);
  if (!runtime.MayAllocate(zeros) || !runtime.Work(zeros / 64)) return Value::Error();
  const bool sign = text.size > 0 && (text.view()[0] == '-' || text.view()[0] == '+');
  TextBuilder out;
  AppendSlice(&out, text, 0, sign ? 1 : 0);
  out.Append(std::string(zeros, '0'), kTemplateOwner);
  AppendSlice(&out, text, sign ? 1 : 0, text.size);
  return Finish(runtime, out, receiver);
}

Value ExpandTabs(Runtime& runtime, const Value& receiver, const CallArguments& arguments) {
  Value given[1];
  if (!Bind(runtime, "expandtabs", arguments, {"tabsize"}, 0, given)) return Value::Error();
  const auto size =
      given[0].is_missing() ? std::optional<int64_t>(8) : AsArgument(runtime, given[0], CType::kInt);
  if (!size) return Value::Error();
  const Text& text = runtime.Flat(receiver);
  const auto n_tabs = static_cast<uint64_t>(std::count(text.view().begin(), text.view().end(), '\t'));
  if (*size > 0 && n_tabs > 0 &&
      (static_cast<uint64_t>(*size) > runtime.budgets().max_heap_bytes / n_tabs ||
       !runtime.MayAllocate(static_cast<uint64_t>(*size) * n_tabs))) {
    return runtime.OverBudget("expanded tabs");
  }
  TextBuilder out;
  int64_t column = 0;
  for (size_t at = 0; at < text.size;) {
    const size_t begin = at;
    const char32_t c = DecodeUtf8(text.view(), &at);
    if (c == '\t') {
      if (*size > 0) {
        const int64_t n = *size - column % *size;
        column += n;
        out.Append(std::string(static_cast<size_t>(n), ' '), text.OwnerAt(begin));
      }
      continue;
    }
    column = c == '\n' || c == '\r' ? 0 : column + 1;
    AppendSlice(&out, text, begin, at);
  }
  return Finish(runtime, out, receiver);
}

Value RemoveAffix(Runtime& runtime, const Value& receiver, const CallArguments& arguments, bool prefix) {
  if (!BindPositional(runtime, prefix ? "removeprefix" : "removesuffix", arguments, 1, 1))
    return Value::Error();
  if (!arguments.positional[0].is_string()) {
    return runtime.RaiseType("argument must be str, not " + std::string(TypeName(arguments.positional[0])));
  }
  const std::string_view text = runtime.View(receiver);
  const std::string_view affix = runtime.View(arguments.positional[0]);
  if (prefix && text.starts_with(affix)) return Part(runtime, receiver, affix.size(), text.size());
  if (!prefix && text.ends_with(affix)) return Part(runtime, receiver, 0, text.size() - affix.size());
  return receiver;
}

bool AllOf(std::string_view text, uint16_t mask) {
  if (text.empty()) return false;
  for (size_t at = 0; at < text.size();) {
    if ((PythonFlagsV14(DecodeUtf8(text, &at)) & mask) == 0) return false;
  }
  return true;
}

bool IsUniformCase(std::string_view text, uint16_t wanted, uint16_t other) {
  bool found = false;
  for (size_t at = 0; at < text.size();) {
    const uint16_t flags = PythonFlagsV14(DecodeUtf8(text, &at));
    if ((flags & (other | unicode::kPythonTitle)) != 0) return false;
    found = found || (flags & wanted) != 0;
  }
  return found;
}

bool IsTitle(std::string_view text) {
  bool found = false;
  bool after_cased = false;
  for (size_t at = 0; at < text.size();) {
    const uint16_t flags = PythonFlagsV14(DecodeUtf8(text, &at));
    if ((flags & (unicode::kPythonUpper | unicode::kPythonTitle)) != 0) {
      if (after_cased) return false;
      after_cased = true;
      found = true;
    } else if ((flags & unicode::kPythonLower) != 0) {
      if (!after_cased) return false;
      found = true;
    } else {
      after_cased = false;
    }
  }
  return found;
}

bool Classify(AttributeId id, std::string_view text) {
  using namespace unicode;
  switch (id) {
    case AttributeId::isalnum:
      return AllOf(text, kPythonAlpha | kPythonDecimal | kPythonDigit | kPythonNumeric);
    case AttributeId::isalpha:
      return AllOf(text, kPythonAlpha);
    case AttributeId::isascii:
      return std::all_of(text.begin(), text.end(),
                         [](char c) { return static_cast<unsigned char>(c) < 0x80; });
    case AttributeId::isdecimal:
      return AllOf(text, kPythonDecimal);
    case AttributeId::isdigit:
      return AllOf(text, kPythonDigit);
    case AttributeId::isnumeric:
      return AllOf(text, kPythonNumeric);
    case AttributeId::isprintable:
      return text.empty() || AllOf(text, kPythonPrintable);
    case AttributeId::isidentifier: {
      if (text.empty()) return false;
      size_t at = 0;
      if ((PythonFlagsV14(DecodeUtf8(text, &at)) & kPythonIdStart) == 0) return false;
      return at == text.size() || AllOf(text.substr(at), kPythonIdContinue);
    }
    case AttributeId::islower:
      return IsUniformCase(text, kPythonLower, kPythonUpper);
    case AttributeId::isupper:
      return IsUniformCase(text, kPythonUpper, kPythonLower);
    case AttributeId::istitle:
      return IsTitle(text);
    default: {  // isspace
      if (text.empty()) return false;
      for (size_t at = 0; at < text.size();) {
        if (!IsPythonSpace(DecodeUtf8(text, &at))) return false;
      }
      return true;
    }
  }
}

}  // namespace

Value StripText(Runtime& runtime, const Value& string, const Value& characters, bool left, bool right) {
  std::u32string set;
  const bool by_set = !characters.is_missing() && !characters.is_none();
  if (by_set) {
    if (!characters.is_string()) {
      return runtime.RaiseType(std::string(left && right ? "strip"
                                           : left        ? "lstrip"
                                                         : "rstrip") +
                               " arg must be None or str");
    }
    const std::string_view text = runtime.View(characters);
    for (size_t at = 0; at < text.size();) set.push_back(DecodeUtf8(text, &at));
  }
  const auto strips = [&](char32_t c) {
    return by_set ? set.find(c) != std::u32string::npos : IsPythonSpace(c);
  };
  const std::string_view text = runtime.View(string);
  size_t begin = 0;
  while (left && begin < text.size()) {
    size_t next = begin;
    if (!strips(DecodeUtf8(text, &next))) break;
    begin = next;
  }
  size_t end = text.size();
  while (right && end > begin) {
    const size_t last = PreviousScalar(text, end);
    size_t next = last;
    if (!strips(DecodeUtf8(text, &next))) break;
    end = last;
  }
  if (!runtime.Work((begin + text.size() - end) * (1 + set.size()) / 64)) return Value::Error();
  return Part(runtime, string, begin, end);
}

Value ChangeCase(Runtime& runtime, const Value& string, CaseChange change) {
  const Text& text = runtime.Flat(string);
  const std::string_view bytes = text.view();
  if (!runtime.Work(bytes.size() / 16)) return Value::Error();
  if (text.is_ascii() &&
      (change == CaseChange::kUpper || change == CaseChange::kLower || change == CaseChange::kFold)) {
    return ChangeAsciiCase(runtime, string, change == CaseChange::kUpper);
  }
  TextBuilder out;
  bool after_cased = false;
  uint64_t offset = 0;
  ForEachSegment(text, 0, bytes.size(), [&](std::string_view part, Owner owner) {
    for (size_t at = 0; at < part.size();) {
      const size_t begin = offset + at;
      const char32_t c = DecodeUtf8(part, &at);
      const uint16_t flags = PythonFlagsV14(c);
      CaseMapping mapping = CaseMapping::kLower;
      switch (change) {
        case CaseChange::kUpper:
          mapping = CaseMapping::kUpper;
          break;
        case CaseChange::kFold:
          mapping = CaseMapping::kFold;
          break;
        case CaseChange::kTitle:
          if (!after_cased) mapping = CaseMapping::kTitle;
          break;
        case CaseChange::kCapitalize:
          if (begin == 0) mapping = CaseMapping::kTitle;
          break;
        case CaseChange::kSwap:
          if ((flags & unicode::kPythonUpper) != 0) break;
          if ((flags & unicode::kPythonLower) != 0) {
            mapping = CaseMapping::kUpper;
          } else {
            out.AppendScalar(c, owner);
            continue;
          }
          break;
        case CaseChange::kLower:
          break;
      }
      AppendMapped(&out, bytes, c, begin, offset + at, mapping, owner);
      after_cased = (flags & unicode::kPythonCased) != 0;
    }
    offset += part.size();
  });
  return Finish(runtime, out, string);
}

Value ReplaceText(Runtime& runtime, const Value& string, const Value& from, const Value& to, int64_t count) {
  const Text& text = runtime.Flat(string);
  const std::string_view bytes = text.view();
  const std::string_view old = runtime.View(from);
  const Text& replacement = runtime.Flat(to);
  if (!runtime.Work(bytes.size() / 16)) return Value::Error();
  uint64_t left = count < 0 ? UINT64_MAX : static_cast<uint64_t>(count);
  TextBuilder out;
  uint64_t begin = 0;
  while (left > 0) {
    uint64_t found = begin;
    if (old.empty()) {
      if (begin > bytes.size()) break;
    } else {
      found = bytes.find(old, begin);
      if (found == std::string_view::npos) break;
      AppendSlice(&out, text, begin, found);
    }
    AppendText(&out, replacement);
    --left;
    if (!runtime.Work(1 + replacement.size / 64) || !runtime.MayAllocate(out.size())) return Value::Error();
    if (!old.empty()) {
      begin = found + old.size();
      continue;
    }
    if (begin == bytes.size()) return Finish(runtime, out, string);
    size_t next = begin;
    (void)DecodeUtf8(bytes, &next);
    AppendSlice(&out, text, begin, next);
    begin = next;
  }
  AppendSlice(&out, text, begin, bytes.size());
  return Finish(runtime, out, string);
}

bool SplitLines(Runtime& runtime, const Value& string, bool keep_ends, std::vector<Value>* lines) {
  const std::string_view text = runtime.View(string);
  if (!runtime.Work(text.size() / 16)) return false;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const char32_t c = DecodeUtf8(text, &at);
    const bool breaks =
        (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (!breaks) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines->push_back(Part(runtime, string, begin, keep_ends ? at : end));
    if (!runtime.Work(1)) return false;
    begin = at;
  }
  if (begin < text.size()) lines->push_back(Part(runtime, string, begin, text.size()));
  return true;
}

Value Center(Runtime& runtime, const Value& string, int64_t width) {
  CallArguments arguments;
  arguments.positional.push_back(Value::Integer(width));
  return PadTo(runtime, AttributeId::center, string, arguments);
}

Value TitleWords(Runtime& runtime, const Value& string) {
  const std::string_view text = runtime.View(string);
  const auto separates = [](char32_t c) {
    return IsPythonSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  TextBuilder out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const bool separator = separates(DecodeUtf8(text, &at));
    const size_t first_end = at;
    while (at < text.size()) {
      size_t next = at;
      if (separates(DecodeUtf8(text, &next)) != separator) break;
      at = next;
    }
    const Value head = ChangeCase(runtime, Part(runtime, string, begin, first_end), CaseChange::kUpper);
    const Value rest = ChangeCase(runtime, Part(runtime, string, first_end, at), CaseChange::kLower);
    if (head.failed() || rest.failed()) return Value::Error();
    AppendText(&out, head.text());
    AppendText(&out, rest.text());
  }
  return runtime.Make(out);
}

Value CallStringMethod(Runtime& runtime, AttributeId id, const Value& receiver,
                       const CallArguments& arguments) {
  runtime.Flat(receiver);
  const auto none = [&] { return BindPositional(runtime, AttributeName(id), arguments, 0, 0); };
  switch (id) {
    case AttributeId::strip:
    case AttributeId::lstrip:
    case AttributeId::rstrip:
      if (!BindPositional(runtime, AttributeName(id), arguments, 0, 1)) return Value::Error();
      return StripText(runtime, receiver,
                       arguments.positional.empty() ? Value::Missing() : arguments.positional[0],
                       id != AttributeId::rstrip, id != AttributeId::lstrip);
    case AttributeId::split:
      return Split(runtime, receiver, arguments, false);
    case AttributeId::rsplit:
      return Split(runtime, receiver, arguments, true);
    case AttributeId::splitlines: {
      Value given[1];
      if (!Bind(runtime, "splitlines", arguments, {"keepends"}, 0, given)) return Value::Error();
      if (!given[0].is_missing() && !AsArgument(runtime, given[0], CType::kInt)) return Value::Error();
      std::vector<Value> lines;
      if (!SplitLines(runtime, receiver, !given[0].is_missing() && Truth(given[0]), &lines))
        return Value::Error();
      return runtime.heap().List(lines, receiver.owner());
    }
    case AttributeId::startswith:
      return HasAffix(runtime, receiver, arguments, true);
    case AttributeId::endswith:
      return HasAffix(runtime, receiver, arguments, false);
    case AttributeId::upper:
      return none() ? ChangeCase(runtime, receiver, CaseChange::kUpper) : Value::Error();
    case AttributeId::lower:
      return none() ? ChangeCase(runtime, receiver, CaseChange::kLower) : Value::Error();
    case AttributeId::title:
      return none() ? ChangeCase(runtime, receiver, CaseChange::kTitle) : Value::Error();
    case AttributeId::capitalize:
      return none() ? ChangeCase(runtime, receiver, CaseChange::kCapitalize) : Value::Error();
    case AttributeId::swapcase:
      return none() ? ChangeCase(runtime, receiver, CaseChange::kSwap) : Value::Error();
    case AttributeId::casefold:
      return none() ? ChangeCase(runtime, receiver, CaseChange::kFold) : Value::Error();
    case AttributeId::replace: {
      if (!receiver.is_markup() && !BindPositional(runtime, "replace", arguments, 2, 3))
        return Value::Error();
      Value given[3];
      if (!Bind(runtime, "replace", arguments, {"old", "new", "count"}, 2, given)) return Value::Error();
      for (int i = 0; i < 2; ++i) {
        if (i == 1 && receiver.is_markup()) given[1] = runtime.Escape(given[1]);
        if (given[i].failed()) return given[i];
        if (!given[i].is_string()) {
          return runtime.RaiseType("replace() argument " + std::to_string(i + 1) + " must be str, not " +
                                   std::string(TypeName(given[i])));
        }
      }
      const auto count =
          given[2].is_missing() ? std::optional<int64_t>(-1) : AsArgument(runtime, given[2], CType::kSize);
      if (!count) return Value::Error();
      return ReplaceText(runtime, receiver, given[0], given[1], *count);
    }
    case AttributeId::find:
    case AttributeId::rfind:
    case AttributeId::index:
    case AttributeId::rindex:
    case AttributeId::count:
      return Search(runtime, id, receiver, arguments);
    case AttributeId::join:
      return Join(runtime, receiver, arguments);
    case AttributeId::partition:
      return Partition(runtime, receiver, arguments, false);
    case AttributeId::rpartition:
      return Partition(runtime, receiver, arguments, true);
    case AttributeId::removeprefix:
      return RemoveAffix(runtime, receiver, arguments, true);
    case AttributeId::removesuffix:
      return RemoveAffix(runtime, receiver, arguments, false);
    case AttributeId::center:
    case AttributeId::ljust:
    case AttributeId::rjust:
      return PadTo(runtime, id, receiver, arguments);
    case AttributeId::zfill:
      return ZeroFill(runtime, receiver, arguments);
    case AttributeId::expandtabs:
      return ExpandTabs(runtime, receiver, arguments);
    case AttributeId::format:
      return FormatBraces(runtime, receiver, arguments);
    case AttributeId::isalnum:
    case AttributeId::isalpha:
    case AttributeId::isascii:
    case AttributeId::isdecimal:
    case AttributeId::isdigit:
    case AttributeId::isidentifier:
    case AttributeId::islower:
    case AttributeId::isnumeric:
    case AttributeId::isprintable:
    case AttributeId::isspace:
    case AttributeId::istitle:
    case AttributeId::isupper:
      if (!none() || !runtime.Work(receiver.text().size / 16)) return Value::Error();
      return Value::Bool(Classify(id, runtime.View(receiver)));
    default:
      return runtime.Refuse(ErrorCode::kUnsupported, "the method str." + std::string(AttributeName(id)));
  }
}

}  // namespace slm::chat
