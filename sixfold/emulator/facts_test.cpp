// Results of small graphs on Qualcomm's library (SDK 2.49, SM8650), number by number: what has no table of
// its own in wide_test.cpp.
#include <gtest/gtest.h>

#include <cstring>

#include "sixfold/emulator/emulator.h"
#include "sixfold/qnn/context.h"

namespace sixfold::emulator {
namespace {

using Kind = qnn::TensorKind;
using Type = qnn::DataType;
using qnn::words;

struct FactTensor {
  Kind kind;
  Type type;
  std::vector<uint32_t> dims;
  std::vector<int32_t> numbers;  // of an output: what the library gave; of a tensor between ops: none
  std::vector<float> scales;     // one, or one for each index of the axis
  int32_t offset = 0, axis = -1;
};
struct FactOp {
  const char* type;
  std::vector<uint32_t> in, out;  // tensors
  std::vector<qnn::Param> params;
};
struct Fact {
  const char* name;
  std::vector<FactTensor> tensors;
  std::vector<FactOp> ops;
  int apart = 0;  // steps that ours may be away
};

std::vector<std::byte> stored(const FactTensor& t) {
  const size_t size = qnn::size_of(t.type);
  std::vector<std::byte> bytes(t.numbers.size() * size);
  for (size_t i = 0; i < t.numbers.size(); ++i) std::memcpy(bytes.data() + i * size, &t.numbers[i], size);
  return bytes;
}

qnn::GraphSpec graph_of(const Fact& fact) {
  qnn::GraphSpec graph;
  for (const FactTensor& t : fact.tensors) {
    qnn::TensorSpec spec{
        .name = cat("t", graph.tensors.size()), .kind = t.kind, .dtype = t.type, .dims = t.dims};
    qnn::AxisScaleOffset axis{t.axis, {}};
    for (const float scale : t.scales) axis.channels.push_back({scale, t.offset});
    if (t.axis >= 0)
      spec.quantization = axis;
    else if (!t.scales.empty())
      spec.quantization = axis.channels[0];
    if (t.kind == Kind::constant) {
      std::byte* bytes = nullptr;
      spec.data.source =
          Tensor::allocate(qnn::storage_of(t.type), Shape(t.dims.begin(), t.dims.end()), &bytes);
      const std::vector<std::byte> from = stored(t);
      std::memcpy(bytes, from.data(), from.size());
    }
    graph.add(std::move(spec));
  }
  for (const FactOp& op : fact.ops) {
    qnn::OpSpec spec{.name = cat("op", graph.ops.size()), .type = op.type, .params = op.params};
    for (const uint32_t t : op.in) spec.in.push_back({t});
    for (const uint32_t t : op.out) spec.out.push_back({t});
    graph.ops.push_back(std::move(spec));
  }
  return graph;
}

Status compare(const Fact& fact) {
  SF_ASSIGN(const qnn::Backend backend, qnn::Backend::open(library(), 57));
  const qnn::GraphSpec graph = graph_of(fact);
  SF_ASSIGN(qnn::Context context, qnn::Context::build(backend, {&graph, 1}));
  std::vector<std::vector<std::byte>> inputs, outputs;
  std::vector<const FactTensor*> wanted;
  for (const FactTensor& t : fact.tensors) {
    if (t.kind == Kind::app_write) inputs.push_back(stored(t));
    if (t.kind != Kind::app_read) continue;
    wanted.push_back(&t);
    outputs.emplace_back(t.numbers.size() * qnn::size_of(t.type));
  }
  const std::vector<std::span<const std::byte>> in(inputs.begin(), inputs.end());
  const std::vector<std::span<std::byte>> out(outputs.begin(), outputs.end());
  SF_TRY(context.graphs().front().execute(in, out));
  for (size_t o = 0; o < wanted.size(); ++o) {
    const size_t size = qnn::size_of(wanted[o]->type);
    for (size_t i = 0; i < wanted[o]->numbers.size(); ++i) {
      int32_t q = 0;  // no type here is shorter than 32 bits and signed
      std::memcpy(&q, outputs[o].data() + i * size, size);
      EXPECT_LE(std::abs(q - wanted[o]->numbers[i]), fact.apart)
          << fact.name << ": element " << i << " of output " << o << " is " << q << ", the library's "
          << wanted[o]->numbers[i];
    }
  }
  return {};
}

TEST(EmulatorFacts, small_graphs_have_the_numbers_of_the_library) {
  const Fact
      facts
          [] =
              {
                  {"ties: the last first",
                   {{Kind::app_write,
                     Type::ufixed8,
                     {1, 12},
                     {0, 3, 3, 2, 3, 1, 4, 1, 4, 1, 1, 1},
                     {0.00999999978f},
                     0},
                    {Kind::app_read, Type::ufixed8, {1, 6}, {4, 4, 3, 3, 3, 2}, {0.00999999978f}, 0},
                    {Kind::app_read, Type::i32, {1, 6}, {8, 6, 4, 2, 1, 3}, {}}},
                   {{"TopK", {0}, {1, 2}, {{"k", uint32_t{6}}, {"largest", true}}}}},
                  {"sums are cut once",
                   {{Kind::constant, Type::ufixed16, {3, 1}, {30000, 30000, 30000}, {0.00100000005f}, -30000},
                    {Kind::app_write, Type::i32, {7, 1}, {0, 0, 0, 1, 1, 1, 2}, {}},
                    {Kind::app_write,
                     Type::ufixed16,
                     {7, 1},
                     {60000, 60000, 0, 10000, 10000, 50000, 30005},
                     {0.00100000005f},
                     -30000},
                    {Kind::app_read,
                     Type::ufixed16,
                     {3, 1},
                     {60000, 10000, 30005},
                     {0.00100000005f},
                     -30000}},
                   {{"ScatterNd", {0, 1, 2}, {3}, {{"reduction", uint32_t{1}}}}}},
                  {"steps of a softmax that are too fine",
                   {{Kind::app_write,
                     Type::ufixed16,
                     {2, 4},
                     {60000, 59990, 50000, 60000, 100, 90, 80, 70},
                     {9.99999997e-07f},
                     -30000},
                    {Kind::app_read,
                     Type::ufixed16,
                     {2, 4},
                     {10959, 21918, 21701, 10959, 9362, 18725, 18725, 18724},
                     {1.52587891e-05f},
                     0}},
                   {{"Softmax", {0}, {1}, {}}},
                   /*apart=*/1},
                  {"means of 3 by 3, the matrix unit",
                   {{Kind::app_write,
                     Type::ufixed8,
                     {1, 5, 5, 3},
                     {83,  205, 47,  23,  233, 95,  53,  202, 186, 194, 189, 154, 248, 33,  197,
                      92,  172, 222, 115, 250, 52,  181, 36,  41,  10,  224, 46,  41,  117, 86,
                      66,  90,  85,  99,  163, 29,  140, 47,  140, 193, 87,  19,  246, 100, 117,
                      0,   255, 118, 186, 22,  95,  8,   176, 207, 85,  52,  13,  207, 240, 68,
                      111, 204, 106, 113, 212, 171, 184, 249, 207, 53,  164, 161, 27,  21,  190},
                     {0.0199999996f},
                     -100},
                    {Kind::app_read,
                     Type::ufixed8,
                     {1, 3, 3, 3},
                     {82, 175, 90,  109, 181, 66,  159, 113, 105, 88,  143, 105, 110, 117,
                      46, 126, 121, 62,  91,  179, 134, 118, 137, 114, 132, 130, 128},
                     {0.0130000003f},
                     -90}},
                   {{"PoolAvg2d",
                     {0},
                     {1},
                     {words("filter_size", {2}, {3, 3}), words("stride", {2}, {1, 1}),
                      words("pad_amount", {2, 2}, {0, 0, 0, 0})}}}},
                  {"means of 2 by 2",
                   {{Kind::app_write,
                     Type::ufixed8,
                     {1, 4, 4, 3},
                     {119, 251, 41,  169, 196, 4,   27,  79,  113, 68,  18, 93,  120, 63,  226, 253,
                      197, 41,  121, 200, 235, 59,  125, 1,   66,  49,  36, 128, 209, 154, 38,  201,
                      166, 227, 220, 248, 66,  130, 192, 159, 29,  176, 9,  236, 173, 94,  110, 255},
                     {0.0199999996f},
                     -100},
                    {Kind::app_read,
                     Type::ufixed8,
                     {1, 2, 2, 3},
                     {190, 208, 56, 42, 98, 106, 97, 97, 151, 78, 231, 255},
                     {0.0130000003f},
                     -90}},
                   {{"PoolAvg2d",
                     {0},
                     {1},
                     {words("filter_size", {2}, {2, 2}), words("stride", {2}, {2, 2}),
                      words("pad_amount", {2, 2}, {0, 0, 0, 0})}}}},
                  {"means of 2 by 2, 16 bits",
                   {{Kind::app_write,
                     Type::ufixed16,
                     {1, 4, 4, 3},
                     {62336, 34975, 61335, 3076,  49614, 53654, 51273, 14086, 44820, 9986,  49663, 51674,
                      19986, 59858, 62750, 18119, 51472, 52317, 54749, 57794, 1982,  13347, 15879, 50391,
                      20748, 56543, 57723, 40400, 36322, 32412, 44395, 4020,  33204, 37549, 30594, 55839,
                      29566, 18948, 35265, 15459, 56682, 15891, 55174, 13925, 61474, 56663, 52319, 34956},
                     {9.99999975e-05f},
                     -30000},
                    {Kind::app_read,
                     Type::ufixed16,
                     {1, 2, 2, 3},
                     {22113, 55114, 65535, 31341, 34222, 38310, 23062, 45320, 35604, 54351, 21164, 51384},
                     {7.00000019e-05f},
                     -28000}},
                   {{"PoolAvg2d",
                     {0},
                     {1},
                     {words("filter_size", {2}, {2, 2}), words("stride", {2}, {2, 2}),
                      words("pad_amount", {2, 2}, {0, 0, 0, 0})}}},
                   /*apart=*/1},
                  {"images twice as large",
                   {{Kind::app_write,
                     Type::ufixed8,
                     {1, 3, 3, 2},
                     {12, 167, 72, 164, 77, 205, 30, 89, 247, 198, 217, 35, 110, 58, 19, 199, 99, 244},
                     {0.0199999996f},
                     -100},
                    {Kind::app_read,
                     Type::ufixed8,
                     {1, 6, 6, 2},
                     {12,  167, 27,  166, 57,  165, 73,  174, 76,  195, 77,  205, 17,  148, 41,
                      154, 91,  166, 115, 170, 113, 165, 112, 163, 26,  109, 70,  129, 159, 169,
                      198, 162, 187, 106, 182, 78,  50,  81,  85,  111, 155, 169, 189, 171, 188,
                      115, 188, 87,  90,  66,  87,  99,  80,  166, 89,  197, 115, 194, 129, 192,
                      110, 58,  87,  93,  42,  164, 39,  210, 79,  233, 99,  244},
                     {0.0199999996f},
                     -100}},
                   {{"ResizeBilinear", {0}, {1}, {{"align_corners", false}, {"half_pixel_centers", true}}}}},
                  {"images twice as large, 16 bits",
                   {{Kind::app_write,
                     Type::ufixed16,
                     {1, 2, 2, 2},
                     {13374, 25272, 25003, 49478, 30082, 55560, 65086, 14708},
                     {9.99999975e-05f},
                     -30000},
                    {Kind::app_read,
                     Type::ufixed16,
                     {1, 4, 4, 2},
                     {13374, 25272, 16281, 31324, 22096, 43427, 25003, 49478, 17551, 32844, 21919,
                      34829, 30656, 38800, 35024, 40786, 25905, 47988, 33195, 41841, 47775, 29547,
                      55065, 23401, 30082, 55560, 38833, 45347, 56335, 24921, 65086, 14708},
                     {9.99999975e-05f},
                     -30000}},
                   {{"ResizeBilinear", {0}, {1}, {{"align_corners", false}, {"half_pixel_centers", true}}}}},
                  {"the vector unit",
                   {{Kind::app_write,
                     Type::ufixed8,
                     {1, 5, 5, 4},
                     {111, 67,  16,  64,  92,  162, 119, 64,  80,  4,   24,  86,  252, 163, 19,  184, 187,
                      109, 139, 109, 213, 109, 173, 5,   16,  46,  7,   123, 22,  158, 173, 236, 39,  199,
                      40,  142, 96,  34,  5,   31,  246, 103, 180, 94,  163, 92,  202, 131, 255, 31,  32,
                      39,  204, 8,   215, 173, 132, 15,  70,  240, 201, 242, 40,  10,  252, 210, 64,  196,
                      208, 196, 170, 223, 160, 23,  176, 9,   11,  22,  19,  153, 169, 16,  154, 164, 55,
                      89,  224, 94,  219, 163, 202, 41,  32,  169, 220, 128, 99,  74,  206, 128},
                     {0.0199999996f},
                     -120},
                    {Kind::constant,
                     Type::sfixed8,
                     {3, 3, 1, 4},
                     {65,  -30, 31,   104, 18, -67,  4,   17,   6,   86,   18,  -2,
                      123, -38, -119, 117, 90, 38,   108, -109, 60,  -104, 101, -53,
                      -16, -40, 51,   82,  14, -111, -42, 69,   -69, -72,  98,  -19},
                     {0.00200000009f, 0.00310000009f, 0.00270000007f, 0.00400000019f},
                     0,
                     3},
                    {Kind::constant,
                     Type::sfixed32,
                     {4},
                     {-6570, 3580, 6342, -3385},
                     {3.9999999e-05f, 6.19999992e-05f, 5.40000001e-05f, 7.9999998e-05f},
                     0,
                     0},
                    {Kind::app_read,
                     Type::ufixed8,
                     {1, 3, 3, 4},
                     {126, 135, 94,  121, 127, 98, 73,  122, 149, 143, 165, 130, 128, 86,  158, 95,  131, 157,
                      113, 185, 123, 172, 116, 83, 122, 132, 162, 103, 126, 96,  149, 158, 102, 147, 136, 89},
                     {0.0299999993f},
                     -127}},
                   {{"DepthWiseConv2d",
                     {0, 1, 2},
                     {3},
                     {words("stride", {2}, {2, 2}), words("pad_amount", {2, 2}, {1, 1, 1, 1})}}}},
                  {"the vector unit, 16 bits",
                   {{Kind::app_write,
                     Type::ufixed16,
                     {1, 5, 5, 4},
                     {64439, 38798, 31394, 44112, 15429, 36776, 38641, 54460, 39827, 10383, 26966, 26602,
                      48066, 57083, 54631, 65421, 49038, 12287, 3261,  54959, 60178, 33005, 19895, 26739,
                      59613, 39473, 20783, 62672, 45433, 38387, 26673, 65458, 41382, 36831, 49738, 34763,
                      51636, 6840,  39672, 43703, 38564, 12054, 31281, 45138, 43568, 1521,  53297, 61286,
                      3622,  15355, 17515, 20072, 11818, 63089, 25600, 1583,  19713, 39750, 26489, 59016,
                      21447, 41694, 60544, 3955,  18455, 56099, 46279, 23160, 25950, 38656, 14046, 15207,
                      32967, 52036, 52021, 23213, 10244, 16348, 61962, 34650, 2197,  36443, 47796, 29913,
                      50289, 11112, 61123, 27833, 40613, 49470, 37765, 57605, 16392, 35542, 58065, 30336,
                      46730, 37976, 7696,  49021},
                     {9.99999975e-05f},
                     -30001},
                    {Kind::constant,
                     Type::sfixed8,
                     {3, 3, 1, 4},
                     {17,  47,  18,   -51, 97, -115, -77,  66,  -28,  90,  92,  -63,
                      119, -20, -102, -40, 82, -58,  -104, -60, -46,  -64, 83,  -109,
                      32,  104, -100, -49, 6,  -72,  -44,  -32, -126, 68,  -61, -64},
                     {0.00200000009f, 0.00310000009f, 0.00270000007f, 0.00400000019f},
                     0,
                     3},
                    {Kind::constant,
                     Type::sfixed32,
                     {4},
                     {12, -4722, -1509, 1451},
                     {2.00000002e-07f, 3.0999999e-07f, 2.69999987e-07f, 4.00000005e-07f},
                     0,
                     0},
                    {Kind::app_read,
                     Type::ufixed16,
                     {1, 3, 3, 4},
                     {32675, 31423, 36317, 14442, 29179, 33053, 35785, 7188,  39776, 40154, 27970, 20819,
                      38734, 43874, 31400, 15038, 34771, 40471, 28701, 46302, 31536, 45756, 25601, 33577,
                      26569, 37508, 32490, 29285, 38165, 35620, 37027, 26753, 29245, 38007, 26897, 31101},
                     {0.000119999997f},
                     -32768}},
                   {{"DepthWiseConv2d",
                     {0, 1, 2},
                     {3},
                     {words("stride", {2}, {2, 2}), words("pad_amount", {2, 2}, {1, 1, 1, 1})}}}},
                  {"computed numbers in another encoding",
                   {{Kind::app_write,
                     Type::ufixed16,
                     {1, 1, 2, 8},
                     {29837, 35340, 20291, 25794, 34949, 21738, 44470, 47748, 44424, 30748, 22575, 49401,
                      27406, 42207, 33280, 44118},
                     {9.99999975e-05f},
                     -30000},
                    {Kind::constant,
                     Type::sfixed8,
                     {1, 1, 8, 8},
                     {-22,  -115, -20,  45,  -33, 89,   63,  -112, 65,   -97, 40,   -48,  -6,
                      -22,  60,   125,  10,  -70, -100, 76,  -123, 95,   99,  83,   -77,  -102,
                      -111, 19,   0,    -54, 127, -33,  -92, 10,   77,   -53, -104, -127, -107,
                      -122, -28,  50,   54,  107, 105,  125, -125, 56,   -31, 53,   -49,  50,
                      -60,  120,  -109, 65,  81,  33,   126, 60,   -104, -50, -61,  95},
                     {0.00200000009f, 0.00200000009f, 0.00200000009f, 0.00200000009f, 0.00200000009f,
                      0.00200000009f, 0.00200000009f, 0.00200000009f},
                     0,
                     3},
                    {Kind::native, Type::ufixed16, {1, 1, 2, 8}, {}, {0.000110000001f}, -32000},
                    {Kind::app_read,
                     Type::ufixed16,
                     {1, 1, 2, 8},
                     {32579, 32880, 34667, 30483, 27554, 29071, 27068, 32857, 29943, 28687, 31480, 34379,
                      31375, 32244, 31253, 30737},
                     {0.000169999999f},
                     -31000}},
                   {{"Conv2d",
                     {0, 1},
                     {2},
                     {words("stride", {2}, {1, 1}), words("pad_amount", {2, 2}, {0, 0, 0, 0})}},
                    {"Convert", {2}, {3}, {}}}},
                  {"an RMS norm is a half that is cut",
                   {{Kind::app_write,
                     Type::ufixed8,
                     {2, 12},
                     {15, 201, 162, 141, 203, 62, 221, 85,  247, 81,  91,  99,
                      83, 205, 47,  23,  233, 95, 53,  202, 186, 194, 189, 154},
                     {0.00417000009f},
                     -123},
                    {Kind::constant,
                     Type::ufixed8,
                     {12},
                     {250, 85, 211, 130, 192, 230, 148, 251, 100, 198, 87, 91},
                     {0.00392000005f},
                     0},
                    {Kind::constant,
                     Type::sfixed32,
                     {12},
                     {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
                     {5.99999998e-12f},
                     0},
                    {Kind::app_read,
                     Type::ufixed8,
                     {2, 12},
                     {73,  162, 166, 151, 185, 107, 183, 119, 177, 122, 137, 139,
                      119, 163, 103, 111, 199, 128, 118, 196, 161, 181, 159, 152},
                     {0.0209999997f},
                     -145}},
                   {{"RmsNorm", {0, 1, 2}, {3}, {{"epsilon", 9.99999997e-07f}, words("axes", {1}, {1})}}}},
                  {"a group norm is a half that is rounded",
                   {{Kind::app_write,
                     Type::ufixed8,
                     {1, 2, 3, 4},
                     {10,  224, 46,  41,  117, 86, 66,  90,  85,  99, 163, 29,
                      140, 47,  140, 193, 87,  19, 246, 100, 117, 0,  255, 118},
                     {0.0199999996f},
                     -120},
                    {Kind::constant, Type::ufixed8, {4}, {202, 77, 132, 66}, {0.00392000005f}, 0},
                    {Kind::constant,
                     Type::sfixed32,
                     {4},
                     {379910, 624150, -328557, -587432},
                     {1.00000001e-07f},
                     0},
                    {Kind::app_read,
                     Type::ufixed8,
                     {1, 2, 3, 4},
                     {84,  166, 103, 113, 151, 133, 109, 122, 131, 136, 142, 111,
                      166, 124, 134, 139, 133, 117, 169, 123, 151, 112, 172, 126},
                     {0.0209999997f},
                     -130}},
                   {{"GroupNorm", {0, 1, 2}, {3}, {{"epsilon", 9.99999975e-06f}, {"group", uint32_t{2}}}}}},
                  {"an instance norm is a half that is rounded",
                   {{Kind::app_write,
                     Type::ufixed8,
                     {1, 2, 3, 4},
                     {13,  207, 240, 68,  111, 204, 106, 113, 212, 171, 184, 249,
                      207, 53,  164, 161, 27,  21,  190, 119, 251, 41,  169, 196},
                     {0.0199999996f},
                     -120},
                    {Kind::constant, Type::ufixed8, {4}, {63, 80, 121, 147}, {0.00392000005f}, 0},
                    {Kind::constant,
                     Type::sfixed32,
                     {4},
                     {-461473, -857933, -266265, -56207},
                     {1.00000001e-07f},
                     0},
                    {Kind::app_read,
                     Type::ufixed8,
                     {1, 2, 3, 4},
                     {112, 143, 166, 91,  125, 143, 89,  112, 137, 136, 134, 175,
                      137, 114, 122, 134, 114, 108, 137, 115, 142, 112, 125, 151},
                     {0.0209999997f},
                     -130}},
                   {{"InstanceNorm", {0, 1, 2}, {3}, {{"epsilon", 9.99999975e-06f}}}}},
                  {"groups of a convolution by 16-bit weights",
                   {{Kind::app_write,
                     Type::ufixed16,
                     {1, 1, 3, 4},
                     {43960, 52756, 1484, 52949, 30726, 33772, 41303, 18730, 64194, 3534, 18214, 25124},
                     {1e-4f},
                     -30000},
                    {Kind::constant,
                     Type::sfixed16,
                     {1, 1, 2, 6},
                     {4271, -5492, -22137, -27284, -29940, -27075, -21072, 29950, -18542, 9142, 15015,
                      -15930},
                     {1e-5f}},
                    {Kind::constant,
                     Type::sfixed32,
                     {6},
                     {-13066000, -3904000, -14206000, 28451000, -19337000, 23860000},
                     {1e-9f}},
                    {Kind::app_read,
                     Type::ufixed16,
                     {1, 1, 3, 6},
                     {21177, 47022, 13368, 57407, 61475, 42758, 29764, 34625, 29493, 22425, 18826, 29433,
                      49267, 7390, 24988, 39635, 38508, 42515},
                     {4e-5f},
                     -32000}},
                   {{"Conv2d",
                     {0, 1, 2},
                     {3},
                     {words("stride", {2}, {1, 1}),
                      words("pad_amount", {2, 2}, {0, 0, 0, 0}),
                      {"group", uint32_t{2}}}}}},
              };
  for (const Fact& fact : facts) {
    const Status status = compare(fact);
    EXPECT_TRUE(status.ok()) << fact.name << ": " << status.error().message();
  }
}

// Tables of bytes are filled in floats, ties to the even number; products and what is negated, halves up.
TEST(EmulatorFacts, numbers_are_rounded_as_on_the_library) {
  const std::vector<int32_t> codes = {0, 50, 99, 100, 101, 102, 103, 127, 128, 129, 200, 255};
  const Fact facts[] = {
      {"ties of a sum with a number",
       {{Kind::app_write, Type::ufixed8, {1, 12}, codes, {0.00999999978f}, -128},
        {Kind::constant, Type::ufixed8, {1}, {201}, {0.00999999978f}, 0},
        {Kind::app_read,
         Type::ufixed8,
         {1, 12},
         {138, 162, 187, 188, 188, 188, 189, 201, 202, 202, 238, 255},
         {0.0199999996f},
         -101}},
       {{"ElementWiseAdd", {0, 1}, {2}, {}}}},
      {"ties of a difference from a number",
       {{Kind::app_write, Type::ufixed8, {1, 12}, codes, {0.0123199718f}, -128},
        {Kind::constant, Type::ufixed8, {1}, {255}, {0.0061599859f}, 0},
        {Kind::app_read,
         Type::ufixed8,
         {1, 12},
         {0, 0, 0, 0, 0, 0, 0, 22, 23, 24, 95, 150},
         {0.0123199718f},
         -150}},
       {{"ElementWiseSubtract", {0, 1}, {2}, {}}}},
      {"ties of a product with a number",
       {{Kind::app_write, Type::ufixed8, {1, 12}, codes, {0.00999999978f}, -128},
        {Kind::constant, Type::ufixed8, {1}, {50}, {0.00999999978f}, 0},
        {Kind::app_read,
         Type::ufixed8,
         {1, 12},
         {37, 62, 87, 87, 88, 88, 89, 101, 101, 102, 137, 165},
         {0.00999999978f},
         -101}},
       {{"ElementWiseMultiply", {0, 1}, {2}, {}}}},
      {"ties of a table",
       {{Kind::app_write, Type::ufixed8, {1, 12}, codes, {0.00999999978f}, -128},
        {Kind::app_read,
         Type::ufixed8,
         {1, 12},
         {165, 140, 116, 115, 114, 114, 114, 102, 101, 102, 137, 164},
         {0.0199999996f},
         -101}},
       {{"ElementWiseAbs", {0}, {1}, {}}}},
      {"ties of what is negated",
       {{Kind::app_write, Type::ufixed8, {1, 12}, codes, {0.00999999978f}, -128},
        {Kind::app_read,
         Type::ufixed8,
         {1, 12},
         {165, 140, 116, 115, 115, 114, 114, 102, 101, 101, 65, 38},
         {0.0199999996f},
         -101}},
       {{"ElementWiseNeg", {0}, {1}, {}}}},
      {"a sum so far of rounded numbers",
       {{Kind::app_write,
         Type::ufixed8,
         {2, 6},
         {0, 255, 3, 128, 201, 77, 9, 140, 90, 133, 250, 64},
         {0.0199999996f},
         -100},
        {Kind::app_read,
         Type::ufixed8,
         {2, 6},
         {0, 238, 89, 132, 255, 220, 0, 62, 47, 98, 255, 200},
         {0.0130000003f},
         -128}},
       {{"CumulativeSum", {0}, {1}, {{"axis", uint32_t{1}}, {"exclusive", false}, {"reverse", false}}}}},
      {"columns above 127",
       {
           {Kind::app_write,
            Type::ufixed16,
            {4, 5},
            {30000, 30000, 62000, 30000, 30000, 30000, 30000, 30000, 1000,  30000,
             30000, 30000, 30000, 30000, 50021, 53182, 5613,  11759, 15519, 11885},
            {4.0e-04f},
            -30000},
           {Kind::app_write,
            Type::ufixed8,
            {5, 4},
            {0, 117, 125, 0, 252, 249, 255, 247, 212, 217, 76, 212, 28, 180, 121, 28, 137, 23, 247, 137},
            {1.0e-02f},
            -120},
           {Kind::app_read,
            Type::ufixed16,
            {4, 4},
            {57440, 58768, 21144, 57299, 55127, 18286, 32509, 54999, 35542, 16501, 53871, 35603, 0, 0, 0, 0},
            {4.8e-04f},
            -32768},
       },
       {{"MatMul", {0, 1}, {2}, {{"transpose_in0", false}, {"transpose_in1", false}}}}},
      {"columns below -128",
       {
           {Kind::app_write,
            Type::ufixed16,
            {4, 5},
            {30000, 30000, 62000, 30000, 30000, 30000, 30000, 30000, 1000, 30000,
             30000, 30000, 30000, 30000, 50021, 52512, 56966, 38152, 2582, 6168},
            {4.0e-04f},
            -30000},
           {Kind::app_write,
            Type::ufixed8,
            {5, 4},
            {29, 0, 31, 32, 250, 169, 255, 255, 252, 63, 96, 252, 68, 220, 97, 68, 177, 63, 193, 177},
            {1.0e-02f},
            -160},
           {Kind::app_read,
            Type::ufixed16,
            {4, 4},
            {57328, 6768, 15568, 57301, 55027, 18267, 48110, 54999, 35670, 16499, 38315, 35603, 52276, 3749,
             33374, 53997},
            {4.8e-04f},
            -32768},
       },
       {{"MatMul", {0, 1}, {2}, {{"transpose_in0", false}, {"transpose_in1", false}}}}},
      {"batches of signed bytes",
       {
           {Kind::app_write,
            Type::ufixed16,
            {2, 2, 5},
            {21771, 28385, 40712, 31395, 17353, 10468, 45312, 48141, 2142,  7449,
             29630, 25639, 58184, 33865, 27532, 28221, 43668, 38456, 11326, 48354},
            {3.1e-05f},
            -21000},
           {Kind::app_write,
            Type::sfixed8,
            {2, 5, 3},
            {65,  116, 73,  -56,  -47, 38, 38, 50,  94, -54, 112, -128, -109, 121, 113,
             -52, -93, -48, -117, 100, 41, 21, -66, -8, -80, 69,  -7,   -121, -63, 52},
            {1.23e-02f},
            7},
           {Kind::app_read,
            Type::ufixed16,
            {2, 2, 3},
            {32824, 37656, 33710, 37055, 12527, 45342, 24941, 23815, 31853, 12360, 25133, 40389},
            {9.7e-05f},
            -31000},
       },
       {{"MatMul", {0, 1}, {2}, {{"transpose_in0", false}, {"transpose_in1", false}}}}},
  };
  for (const Fact& fact : facts) {
    const Status status = compare(fact);
    EXPECT_TRUE(status.ok()) << fact.name << ": " << status.error().message();
  }
}

}  // namespace
}  // namespace sixfold::emulator
