#include "sixfold/import/origin.h"

#include <algorithm>

#include "sixfold/base/cat.h"

namespace sixfold {
namespace {

std::string_view next_line(std::string_view& rest) {
  const size_t end = std::min(rest.find('\n'), rest.size());
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return line;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(" \t\r"), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(" \t\r") + 1);
}

bool is_torch(std::string_view path) {
  return path.find("-packages/torch/") != std::string_view::npos ||
         path.find("/torch/nn/") != std::string_view::npos || path.starts_with('<');
}

std::string printable(std::string_view text, size_t limit) {
  std::string out(text.substr(0, limit));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return out;
}

}  // namespace

std::string user_line(std::string_view rest) {
  std::string found;
  while (!rest.empty()) {
    std::string_view line = trimmed(next_line(rest));
    // File "/home/me/model.py", line 12, in forward
    constexpr std::string_view kFile = "File \"", kLine = "\", line ", kIn = ", in ";
    const size_t line_at = line.find(kLine), in_at = line.find(kIn);
    if (!line.starts_with(kFile) || line_at == std::string_view::npos || in_at == std::string_view::npos ||
        in_at < line_at)
      continue;
    const std::string_view path = line.substr(kFile.size(), line_at - kFile.size());
    const std::string_view number = line.substr(line_at + kLine.size(), in_at - line_at - kLine.size());
    const std::string_view function = line.substr(in_at + kIn.size());
    std::string_view after = rest;
    const std::string_view code = trimmed(next_line(after));
    if (is_torch(path)) continue;
    found = cat(path.substr(path.find_last_of("/\\") + 1), ":", number, " in ", function);
    if (!code.empty() && !code.starts_with(kFile)) found += cat(": ", code);
  }
  return printable(found, 300);
}

std::string module_path(std::string_view stack) {
  // Types may hold ';' only inside "<locals>"-like names, never before the last entry's path: take the last
  // entry that has two commas.
  std::string_view found;
  while (!stack.empty()) {
    const size_t end = std::min(stack.find(';'), stack.size());
    const std::string_view entry = stack.substr(0, end);
    stack.remove_prefix(std::min(end + 1, stack.size()));
    const size_t first = entry.find(',');
    const size_t second = first == std::string_view::npos ? first : entry.find(',', first + 1);
    if (second != std::string_view::npos) found = entry.substr(first + 1, second - first - 1);
  }
  constexpr std::string_view kSelf = "L['self'].";
  if (found.starts_with(kSelf)) found.remove_prefix(kSelf.size());
  return printable(found, 300);
}

}  // namespace sixfold
