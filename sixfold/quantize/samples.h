// Calibration samples, one at a time: whatever their number, one is in memory for each thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sixfold/base/tensor.h"

namespace sixfold {

// How an image becomes an input.
struct Preprocess {
  int resize = 0;                // the shorter side; 0: as it is
  int crop = 0;                  // a square out of the middle; 0: none
  std::vector<float> mean, std;  // by channel, of values in 0 to 1; empty: 0 and 1
  bool nhwc = false;             // else [1, channels, height, width]
  bool unit = true;              // 0 to 255 becomes 0 to 1
};
// "resize=256,crop=224,mean=0.485:0.456:0.406,std=0.229:0.224:0.225,layout=nchw,range=1"
Result<Preprocess> parse_preprocess(std::string_view text);

class Samples {
 public:
  virtual ~Samples() = default;
  virtual size_t count() const = 0;
  // The inputs of sample i. Several threads may ask at once.
  virtual Result<std::vector<Tensor>> read(size_t i) const = 0;
  virtual std::string name(size_t i) const = 0;  // for messages
};

// path: an .npz with in0, in1, ... stacked over samples; a folder of .npz files, a sample each, or of JPEG
// and PNG images; a list with a line for each sample, its .npy files separated by spaces and relative to the
// list.
Result<std::unique_ptr<Samples>> open_samples(const std::string& path, const Preprocess& preprocess = {});

// The first `count` of others, or those from `begin` on.
std::unique_ptr<Samples> some_samples(const Samples& all, size_t begin, size_t count);

// At most `count` of others, from all over them: neighbours are often alike.
std::unique_ptr<Samples> spread_samples(const Samples& all, size_t count);
inline size_t spread_step(size_t all, size_t count) { return all > count && count > 0 ? all / count : 1; }

// Arrays that are there already.
std::unique_ptr<Samples> samples_of(std::vector<std::vector<Tensor>> samples);

// A decoded and prepared image.
Result<Tensor> read_image(const std::string& path, const Preprocess& preprocess);

}  // namespace sixfold
