// JSON of a .pt2, by simdjson. Every access can fail with the place in the document:
// "graph_module.graph.nodes[12].target".
#pragma once

#include <simdjson.h>

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sixfold/base/result.h"

namespace sixfold {

// A value and how it was reached. Cheap to copy; valid as long as its JsonDocument.
class Json {
 public:
  bool is_null() const { return element_.is_null(); }
  Result<int64_t> integer() const;
  Result<double> real() const;  // a number, or "Infinity", "-Infinity", "NaN" as torch writes them
  Result<bool> flag() const;
  Result<std::string_view> text() const;
  Result<std::vector<Json>> items() const;
  Result<std::vector<std::pair<std::string_view, Json>>> members() const;

  Result<Json> get(std::string_view key) const;                  // there and not null
  Result<std::optional<Json>> find(std::string_view key) const;  // absent or null: nothing
  // A union: the one key of an object, and what it holds.
  Result<std::pair<std::string_view, Json>> tagged() const;

  std::string path() const;
  template <typename... Parts>
  Error bad(const Parts&... parts) const {
    return invalid_model(parts..., " at ", path());
  }

 private:
  friend class JsonDocument;
  struct Step {
    const Step* parent;
    std::string_view key;
    size_t index;
  };
  Json(simdjson::dom::element element, std::deque<Step>* steps, const Step* step)
      : element_(element), steps_(steps), step_(step) {}
  Json child(simdjson::dom::element element, std::string_view key, size_t index) const;
  Error expected(std::string_view what) const;

  simdjson::dom::element element_;
  std::deque<Step>* steps_;  // of the document
  const Step* step_;
};

class JsonDocument {
 public:
  // Copies the bytes. `name` is how messages call the document.
  static Result<JsonDocument> parse(std::span<const std::byte> bytes, std::string_view name);
  Json root() const { return Json(root_, steps_.get(), nullptr); }

 private:
  std::unique_ptr<simdjson::dom::parser> parser_;
  std::unique_ptr<std::deque<Json::Step>> steps_;
  simdjson::dom::element root_;
};

}  // namespace sixfold
