#include "sixfold/quantize/samples.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "sixfold/base/mapped_file.h"
#include "sixfold/base/npy.h"

namespace sixfold {
namespace {

namespace fs = std::filesystem;

// in0, in1, ... of an .npz: no gap, nothing else that begins like it.
Result<std::vector<Tensor>> read_inputs(const std::string& path, Alignment alignment = Alignment::natural) {
  SF_ASSIGN(const NpzReader npz, NpzReader::open(path));
  const auto has = [&](const std::string& name) {
    return std::find(npz.names().begin(), npz.names().end(), name) != npz.names().end();
  };
  std::vector<Tensor> out;
  for (size_t i = 0; has(cat("in", i)); ++i) {
    SF_ASSIGN(Tensor t, npz.read(cat("in", i), alignment));
    out.push_back(std::move(t));
  }
  if (out.empty()) {
    std::string names;
    for (const std::string& name : npz.names()) names += cat(names.empty() ? "" : ", ", name);
    return invalid_argument(path, " has no array in0, it has ", names.empty() ? "none" : names);
  }
  return out;
}

class StackedSamples final : public Samples {
 public:
  static Result<std::unique_ptr<Samples>> open(const std::string& path) {
    auto out = std::make_unique<StackedSamples>();
    out->path_ = path;
    SF_ASSIGN(out->arrays_, read_inputs(path, Alignment::any));
    for (size_t i = 0; i < out->arrays_.size(); ++i) {
      const Tensor& t = out->arrays_[i];
      if (t.shape.empty())
        return invalid_argument(path, ": in", i, " is a scalar, and its first axis must count samples");
      if (t.shape[0] != out->arrays_[0].shape[0])
        return invalid_argument(path, ": in", i, " has ", t.shape[0], " rows, in0 has ",
                                out->arrays_[0].shape[0]);
    }
    return std::unique_ptr<Samples>(std::move(out));
  }
  size_t count() const override { return static_cast<size_t>(arrays_[0].shape[0]); }
  std::string name(size_t i) const override { return cat("row ", i, " of ", path_); }
  Result<std::vector<Tensor>> read(size_t i) const override {
    std::vector<Tensor> out;
    for (Tensor t : arrays_) {
      t.shape.erase(t.shape.begin());
      t.data += i * t.size_bytes();
      out.push_back(with_alignment(t));
    }
    return out;
  }

 private:
  std::string path_;
  std::vector<Tensor> arrays_;  // where they lie in the file, if it is not compressed
};

// A sample is one or more files.
class FileSamples final : public Samples {
 public:
  enum class Kind : uint8_t { npy, npz, image };
  FileSamples(Kind kind, std::vector<std::vector<std::string>> files, Preprocess preprocess)
      : kind_(kind), files_(std::move(files)), preprocess_(std::move(preprocess)) {}
  size_t count() const override { return files_.size(); }
  std::string name(size_t i) const override { return files_[i][0]; }
  Result<std::vector<Tensor>> read(size_t i) const override {
    if (kind_ == Kind::npz) return read_inputs(files_[i][0]);
    std::vector<Tensor> out;
    for (const std::string& path : files_[i]) {
      SF_ASSIGN(const Tensor t, kind_ == Kind::npy ? read_npy(path) : read_image(path, preprocess_));
      out.push_back(to_contiguous(t));
    }
    return out;
  }

 private:
  Kind kind_;
  std::vector<std::vector<std::string>> files_;
  Preprocess preprocess_;
};

std::string lower_extension(const fs::path& path) {
  std::string text = path.extension().string();
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

Result<std::unique_ptr<Samples>> open_folder(const std::string& path, const Preprocess& preprocess) {
  std::error_code error;
  std::vector<std::vector<std::string>> arrays, images;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    const std::string extension = lower_extension(it->path());
    if (extension == ".npz") arrays.push_back({it->path().string()});
    if (extension == ".jpg" || extension == ".jpeg" || extension == ".png")
      images.push_back({it->path().string()});
  }
  if (error) return invalid_argument("the folder ", path, " cannot be read: ", error.message());
  if (arrays.empty() == images.empty())
    return invalid_argument("the folder ", path, " has ", arrays.size(), " .npz files and ", images.size(),
                            " images, and samples are one or the other");
  const auto kind = images.empty() ? FileSamples::Kind::npz : FileSamples::Kind::image;
  auto& files = images.empty() ? arrays : images;
  std::sort(files.begin(), files.end());  // a folder has no order of its own
  return std::unique_ptr<Samples>(std::make_unique<FileSamples>(kind, std::move(files), preprocess));
}

Result<std::unique_ptr<Samples>> open_list(const std::string& path) {
  SF_ASSIGN(const auto file, MappedFile::open(path));
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  if (text.find('\0') != std::string_view::npos)
    return invalid_argument(path, " is neither an .npz nor a list of .npy files");
  const fs::path folder = fs::path(path).parent_path();
  std::vector<std::vector<std::string>> files;
  for (size_t begin = 0, line = 1; begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::vector<std::string> sample;
    for (size_t i = begin; i < end;) {
      const size_t stop = std::min(text.find_first_of(" \t\r\n", i), end);
      if (stop > i) {
        const fs::path name(text.substr(i, stop - i));
        std::error_code error;
        // Beside the list, as a list that is moved with its files; else where the caller is, as the
        // runner's lists are.
        const fs::path beside = folder / name;  // an absolute name stays as it is
        sample.push_back((fs::is_regular_file(beside, error) ? beside : name).string());
        if (!fs::is_regular_file(sample.back(), error))
          return invalid_argument(path, ":", line, " names ", name.string(),
                                  ", which is no file beside the list or here");
      }
      i = stop + 1;
    }
    if (!sample.empty()) files.push_back(std::move(sample));
    begin = end + 1;
  }
  return std::unique_ptr<Samples>(
      std::make_unique<FileSamples>(FileSamples::Kind::npy, std::move(files), Preprocess{}));
}

class SomeSamples final : public Samples {
 public:
  SomeSamples(const Samples& all, size_t begin, size_t count, size_t step = 1)
      : all_(all), begin_(begin), count_(count), step_(step) {}
  size_t count() const override { return count_; }
  std::string name(size_t i) const override { return all_.name(begin_ + i * step_); }
  Result<std::vector<Tensor>> read(size_t i) const override { return all_.read(begin_ + i * step_); }

 private:
  const Samples& all_;
  size_t begin_, count_, step_;
};

class ReadySamples final : public Samples {
 public:
  explicit ReadySamples(std::vector<std::vector<Tensor>> samples) : samples_(std::move(samples)) {}
  size_t count() const override { return samples_.size(); }
  std::string name(size_t i) const override { return cat("sample ", i); }
  Result<std::vector<Tensor>> read(size_t i) const override { return samples_[i]; }

 private:
  std::vector<std::vector<Tensor>> samples_;
};

}  // namespace

Result<std::unique_ptr<Samples>> open_samples(const std::string& path, const Preprocess& preprocess) {
  std::error_code error;
  auto out = fs::is_directory(path, error)               ? open_folder(path, preprocess)
             : lower_extension(fs::path(path)) == ".npz" ? StackedSamples::open(path)
                                                         : open_list(path);
  if (out.ok() && (*out)->count() == 0) return invalid_argument(path, " has no samples");
  return out;
}

std::unique_ptr<Samples> some_samples(const Samples& all, size_t begin, size_t count) {
  begin = std::min(begin, all.count());
  return std::make_unique<SomeSamples>(all, begin, std::min(count, all.count() - begin));
}

std::unique_ptr<Samples> spread_samples(const Samples& all, size_t count) {
  const size_t step = spread_step(all.count(), count);
  return std::make_unique<SomeSamples>(all, 0, std::min(count, (all.count() + step - 1) / step), step);
}

std::unique_ptr<Samples> samples_of(std::vector<std::vector<Tensor>> samples) {
  return std::make_unique<ReadySamples>(std::move(samples));
}

}  // namespace sixfold
