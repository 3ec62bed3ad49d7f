#include "sixfold/import/json.h"

#include <cmath>
#include <limits>

namespace sixfold {
namespace {

constexpr size_t kMaxDepth = 512;

std::string_view kind_of(simdjson::dom::element_type type) {
  switch (type) {
    case simdjson::dom::element_type::ARRAY:
      return "a list";
    case simdjson::dom::element_type::OBJECT:
      return "an object";
    case simdjson::dom::element_type::INT64:
    case simdjson::dom::element_type::UINT64:
      return "an integer";
    case simdjson::dom::element_type::DOUBLE:
      return "a number";
    case simdjson::dom::element_type::STRING:
      return "a string";
    case simdjson::dom::element_type::BOOL:
      return "a boolean";
    case simdjson::dom::element_type::NULL_VALUE:
      return "null";
  }
  return "nothing";
}

}  // namespace

Json Json::child(simdjson::dom::element element, std::string_view key, size_t index) const {
  steps_->push_back({step_, key, index});
  return Json(element, steps_, &steps_->back());
}

std::string Json::path() const {
  std::vector<const Step*> steps;
  for (const Step* s = step_; s; s = s->parent) steps.push_back(s);
  std::string out;
  for (size_t i = steps.size(); i-- > 0;) {
    const Step& s = *steps[i];
    if (s.key.empty())
      out += cat("[", s.index, "]");
    else
      out += cat(out.empty() ? "" : ".", s.key);
  }
  return out.empty() ? "the top of the document" : out;
}

Error Json::expected(std::string_view what) const {
  return bad("expected ", what, ", found ", kind_of(element_.type()));
}

Result<int64_t> Json::integer() const {
  int64_t out = 0;
  if (element_.get(out) != simdjson::SUCCESS) return expected("an integer of 64 bits");
  return out;
}

Result<double> Json::real() const {
  double out = 0;
  if (element_.get(out) == simdjson::SUCCESS) return out;
  std::string_view word;
  if (element_.get(word) != simdjson::SUCCESS) return expected("a number");
  if (word == "Infinity") return std::numeric_limits<double>::infinity();
  if (word == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (word == "NaN") return std::numeric_limits<double>::quiet_NaN();
  return expected("a number");
}

Result<bool> Json::flag() const {
  bool out = false;
  if (element_.get(out) != simdjson::SUCCESS) return expected("a boolean");
  return out;
}

Result<std::string_view> Json::text() const {
  std::string_view out;
  if (element_.get(out) != simdjson::SUCCESS) return expected("a string");
  return out;
}

Result<std::vector<Json>> Json::items() const {
  simdjson::dom::array array;
  if (element_.get(array) != simdjson::SUCCESS) return expected("a list");
  std::vector<Json> out;
  for (const simdjson::dom::element item : array) out.push_back(child(item, {}, out.size()));
  return out;
}

Result<std::vector<std::pair<std::string_view, Json>>> Json::members() const {
  simdjson::dom::object object;
  if (element_.get(object) != simdjson::SUCCESS) return expected("an object");
  std::vector<std::pair<std::string_view, Json>> out;
  for (const auto field : object) out.emplace_back(field.key, child(field.value, field.key, 0));
  return out;
}

Result<std::optional<Json>> Json::find(std::string_view key) const {
  simdjson::dom::object object;
  if (element_.get(object) != simdjson::SUCCESS) return expected("an object");
  simdjson::dom::element found;
  if (object.at_key(key).get(found) != simdjson::SUCCESS || found.is_null()) return std::optional<Json>();
  return std::optional<Json>(child(found, key, 0));
}

Result<Json> Json::get(std::string_view key) const {
  SF_ASSIGN(std::optional<Json> found, find(key));
  if (!found) return bad("the key '", key, "' is missing");
  return *found;
}

Result<std::pair<std::string_view, Json>> Json::tagged() const {
  SF_ASSIGN(auto all, members());
  if (all.size() != 1) return bad("expected an object with one key, found ", all.size(), " keys");
  return all.front();
}

Result<JsonDocument> JsonDocument::parse(std::span<const std::byte> bytes, std::string_view name) {
  JsonDocument out;
  out.parser_ = std::make_unique<simdjson::dom::parser>();
  out.steps_ = std::make_unique<std::deque<Json::Step>>();
  if (bytes.empty()) return invalid_model(name, " is empty");
  simdjson::error_code code = out.parser_->allocate(bytes.size(), kMaxDepth);
  if (code == simdjson::SUCCESS) {
    const simdjson::padded_string padded(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    code = out.parser_->parse(padded).get(out.root_);
  }
  if (code == simdjson::DEPTH_ERROR) return invalid_model(name, " nests deeper than ", kMaxDepth, " levels");
  if (code != simdjson::SUCCESS)
    return invalid_model(name, " is not valid JSON: ", simdjson::error_message(code));
  return out;
}

}  // namespace sixfold
