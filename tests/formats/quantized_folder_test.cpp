// SPDX-License-Identifier: MIT
// Quantized folders against the values that other programs compute of the same tensors
// (fixtures/external/quantized-folders), bit for bit; and folders that must be refused.
#include "ref/formats/quantized_folder/folder_quantization.h"

#include <algorithm>
#include <limits>

#include "ref/formats/checkpoint.h"
#include "ref/formats/quantized_folder/quantized_matrix.h"
#include "ref/formats/quantized_folder/unpacking_error.h"
#include "ref/formats/safetensors.h"
#include "tests/formats/files.h"

namespace draftproof::quantized_folder_test {
namespace {

using ::testing::HasSubstr;

const std::filesystem::path folders = source_dir / "fixtures/external/quantized-folders";

struct Folder {
  const char* name;
  Format narrow;  // of k_proj
  Format wide;    // of down_proj
  bool exact;     // whether the formats hold the values
};

void PrintTo(const Folder& folder, std::ostream* out) { *out << folder.name; }

class QuantizedFolder : public ::testing::TestWithParam<Folder> {
 protected:
  std::filesystem::path path() const { return folders / GetParam().name; }
  SafeTensors values() const { return SafeTensors(path() / "values.safetensors"); }
};

/// What rows of a weight are as floats when so many are read at a time.
std::vector<float> kept_values(const WeightSource& source, int together) {
  std::vector<float> values(static_cast<std::size_t>(source.outputs) * static_cast<std::size_t>(source.inputs));
  std::vector<std::byte> bytes(source.bytes_per_row() * static_cast<std::size_t>(together));
  for (int first = 0; first < source.outputs; first += together) {
    const int rows = std::min(together, source.outputs - first);
    source.read(first, rows, bytes.data());
    for (int row = 0; row < rows; ++row) {
      dequantize_row(source.format, bytes.data() + source.bytes_per_row() * static_cast<std::size_t>(row),
                     source.inputs, values.data() + std::ptrdiff_t{first + row} * source.inputs);
    }
  }
  return values;
}

std::vector<float> exact_values(const WeightSource& source, int together) {
  std::vector<float> values(static_cast<std::size_t>(source.outputs) * static_cast<std::size_t>(source.inputs));
  for (int first = 0; first < source.outputs; first += together) {
    source.read_exact(first, std::min(together, source.outputs - first),
                      values.data() + std::ptrdiff_t{first} * source.inputs);
  }
  return values;
}

TEST_P(QuantizedFolder, ValuesEqualThoseOfOtherProgramsBitForBitHoweverManyRowsAreRead) {
  const Checkpoint checkpoint(path());
  int compared = 0;
  const SafeTensors expected = values();
  for (const auto& [name, tensor] : expected.tensors()) {
    if (name.starts_with("rounded.")) continue;
    const WeightSource source = checkpoint.weight(name, tensor.shape);
    for (const int together : {1, 7, source.outputs}) {
      EXPECT_EQ(bytes_of(exact_values(source, together)), stored_bytes(tensor)) << name << " " << together;
      if (GetParam().exact) {
        const auto kept = kept_values(source, together);
        EXPECT_EQ(kept, exact_values(source, together)) << name << " " << together;
        // Signs of zeros, too, which mxfp4 does not have.
        if (source.format == Format::mxfp4) continue;
        EXPECT_EQ(bytes_of(kept), stored_bytes(tensor)) << name << " " << together;
      }
    }
    EXPECT_EQ(source.format, name.find("down_proj") == std::string::npos ? GetParam().narrow : GetParam().wide) << name;
    ++compared;
  }
  EXPECT_EQ(compared, 2);
}

TEST_P(QuantizedFolder, WeightsThatAreRoundedEqualThoseThatOtherProgramsComputeWith) {
  const Checkpoint checkpoint(path());
  const SafeTensors expected = values();
  for (const auto& [name, tensor] : expected.tensors()) {
    if (!name.starts_with("rounded.")) continue;
    const std::string weight = name.substr(std::string_view("rounded.").size());
    const WeightSource source = checkpoint.weight(weight, tensor.shape);
    if (source.format != tensor.format) continue;
    std::string bytes(tensor.bytes, '\0');
    source.read(0, source.outputs, bytes.data());
    EXPECT_EQ(bytes, stored_bytes(tensor)) << weight;
  }
}

TEST_P(QuantizedFolder, AnUnpackingErrorIsThatOfTheFormat) {
  const UnpackingError error = measure_unpacking(Checkpoint(path()));
  EXPECT_GT(error.values, 0U);
  if (GetParam().exact) {
    EXPECT_EQ(error.max, 0);
    EXPECT_EQ(error.rms, 0);
    return;
  }
  // Half a step of bf16, and of the f16 scale of a block or of f16.
  const bool brain = GetParam().narrow == Format::bf16 || GetParam().wide == Format::bf16;
  EXPECT_LE(error.max, brain ? 0x1p-8 : 0x1p-11);
  EXPECT_GT(error.max, brain ? 0x1p-10 : 0x1p-14);
  EXPECT_LE(error.rms, error.max);
}

TEST_P(QuantizedFolder, WithoutAnyOneOfItsPartsItIsRefusedByTheNameOfThePart) {
  const Checkpoint whole(path());
  const SafeTensors file(path() / "model.safetensors");
  const TemporaryFolder folder;
  folder.write("config.json", bytes_of_file(path() / "config.json"));
  for (const auto& [name, tensor] : whole.tensors()) {
    if (tensor.quantized == nullptr) continue;
    for (const StoredTensor& missing : tensor.quantized->parts) {
      if (missing.name.ends_with("g_idx") && tensor.quantized->order.empty()) continue;  // says what is so without it
      std::vector<Tensor> others;
      for (const auto& [other, stored] : file.tensors()) {
        if (other != missing.name) others.push_back({other, stored.type_name, stored.shape, stored_bytes(stored)});
      }
      folder.write("model.safetensors", safetensors(others));
      const std::string message = error_of([&] { Checkpoint(folder.path()); });
      EXPECT_THAT(message, HasSubstr("have no tensor"));
      EXPECT_THAT(message, HasSubstr(missing.name.substr(0, missing.name.rfind("_inv"))));
    }
  }
}

const Folder all_folders[] = {
    {"fp8-block", Format::bf16, Format::bf16, false},
    {"fp8-tensor", Format::bf16, Format::bf16, false},
    {"ct-fp8-channel", Format::bf16, Format::bf16, false},
    {"ct-int8", Format::q8_0, Format::q8_0, false},
    {"ct-int8-asymmetric", Format::bf16, Format::bf16, false},
    {"ct-w4", Format::q4_0, Format::q4_0, true},
    {"ct-w4-asymmetric", Format::q5_0, Format::q5_0, true},
    {"ct-w4-ordered", Format::bf16, Format::bf16, false},
    {"ct-w8", Format::q8_0, Format::q8_0, true},
    {"ct-nvfp4", Format::bf16, Format::bf16, false},
    {"ct-mxfp4", Format::mxfp4, Format::mxfp4, true},
    {"gptq-2", Format::q4_0, Format::q4_0, true},
    {"gptq-3-asymmetric", Format::q4_0, Format::q4_0, true},
    {"gptq-3-ordered-v2", Format::f16, Format::f16, false},
    {"gptq-4", Format::q4_0, Format::q4_0, true},
    {"gptq-4-asymmetric", Format::q5_0, Format::q5_0, true},
    {"gptq-4-ordered-v2", Format::f16, Format::f16, false},
    {"gptq-8", Format::q8_0, Format::q8_0, true},
    {"gptq-8-asymmetric-v2", Format::f16, Format::f16, false},
    {"awq", Format::q5_0, Format::q5_0, true},
    {"mlx-4", Format::q4_1, Format::q4_1, true},
    {"mlx-8", Format::bf16, Format::bf16, false},
    {"mlx-mixed", Format::q4_1, Format::f16, false},
    {"mlx-mxfp4", Format::mxfp4, Format::bf16, true},
    {"mlx-nvfp4", Format::bf16, Format::bf16, true},
    {"mlx-experts", Format::q4_1, Format::bf16, false},
    {"bitnet", Format::q4_0, Format::q4_0, true},
    {"bitnet-divided", Format::q4_0, Format::q4_0, false},
    {"modelopt-fp8", Format::bf16, Format::bf16, false},
    {"modelopt-nvfp4", Format::bf16, Format::bf16, false},
    {"mxfp4-experts", Format::mxfp4, Format::mxfp4, true},
};

INSTANTIATE_TEST_SUITE_P(All, QuantizedFolder, ::testing::ValuesIn(all_folders), [](const auto& info) {
  std::string name = info.param.name;
  std::ranges::replace(name, '-', '_');
  return name;
});

/// Tensors of one matrix, and the block of config.json that describes them.
struct Parts {
  std::string block;
  std::vector<Tensor> tensors;

  Tensor& operator[](const std::string& name) {
    return *std::ranges::find_if(tensors, [&](const Tensor& tensor) { return tensor.name == name; });
  }
  Parts& replace(const std::string& from, const std::string& to) {
    block.replace(block.find(from), from.size(), to);
    return *this;
  }
  Parts& remove(const std::string& name) {
    std::erase_if(tensors, [&](const Tensor& tensor) { return tensor.name == name; });
    return *this;
  }
};

Tensor floats(const std::string& name, std::vector<std::int64_t> shape, float value) {
  return {name, "F32", shape, bytes_of(std::vector<float>(*elements(shape), value))};
}
Tensor words(const std::string& name, const std::string& type, std::vector<std::int64_t> shape, std::uint32_t value) {
  return {name, type, shape, bytes_of(std::vector<std::uint32_t>(*elements(shape), value))};
}
Tensor bytes(const std::string& name, const std::string& type, std::vector<std::int64_t> shape, char value) {
  return {name, type, shape, std::string(*elements(shape), value)};
}

Parts fp8() {
  return {R"({"quant_method": "fp8", "weight_block_size": [16, 32], "activation_scheme": "dynamic"})",
          {bytes("x.weight", "F8_E4M3", {32, 64}, 0x38), floats("x.weight_scale_inv", {2, 2}, 0.5F)}};
}
Parts gptq() {
  return {R"({"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": true, "checkpoint_format": "gptq"})",
          {words("x.qweight", "I32", {8, 8}, 0x76543210), words("x.qzeros", "I32", {2, 1}, 0x77777777),
           floats("x.scales", {2, 8}, 0.5F), words("x.g_idx", "I32", {64}, 0)}};
}
Parts awq() {
  return {R"({"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm"})",
          {words("x.qweight", "I32", {64, 1}, 0x76543210), words("x.qzeros", "I32", {2, 1}, 0x77777777),
           floats("x.scales", {2, 8}, 0.5F)}};
}
Parts packed() {
  return {R"({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": {"weights":
 {"num_bits": 4, "type": "int", "symmetric": false, "strategy": "group", "group_size": 32}}}})",
          {words("x.weight_packed", "I32", {8, 8}, 0x76543210),
           floats("x.weight_scale", {8, 2}, 0.5F),
           words("x.weight_zero_point", "I32", {1, 2}, 0x77777777),
           {"x.weight_shape", "I64", {2}, bytes_of(std::vector<std::int64_t>{8, 64})}}};
}
Parts int8() {
  return {R"({"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {"group_0": {"weights":
 {"num_bits": 8, "type": "int", "symmetric": false, "strategy": "channel"}}}})",
          {bytes("x.weight", "I8", {8, 64}, 3), floats("x.weight_scale", {8, 1}, 0.5F),
           bytes("x.weight_zero_point", "I8", {8, 1}, 1)}};
}
Parts nvfp4() {
  return {R"({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized", "config_groups": {"group_0":
 {"weights": {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}}}})",
          {bytes("x.weight_packed", "U8", {4, 16}, 0x11), bytes("x.weight_scale", "F8_E4M3", {4, 2}, 0x38),
           floats("x.weight_global_scale", {1}, 2)}};
}
Parts modelopt() {
  return {R"({"quant_method": "modelopt", "quant_algo": "NVFP4"})",
          {bytes("x.weight", "U8", {4, 16}, 0x11), bytes("x.weight_scale", "F8_E4M3", {4, 2}, 0x38),
           floats("x.weight_scale_2", {}, 2)}};
}
Parts bitnet() {
  return {R"({"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline"})",
          {bytes("x.weight", "U8", {8, 64}, 0x24), floats("x.weight_scale", {1}, 0.5F)}};
}
Parts mxfp4() {
  return {R"({"quant_method": "mxfp4"})",
          {bytes("x_blocks", "U8", {2, 4, 2, 16}, 0x11), bytes("x_scales", "U8", {2, 4, 2}, 120)}};
}
Parts mlx() {
  return {
      R"({"group_size": 32, "bits": 4})",
      {words("x.weight", "U32", {8, 8}, 0x76543210), floats("x.scales", {8, 2}, 0.5F), floats("x.biases", {8, 2}, -1)}};
}
Parts mlx_experts() {
  return {R"({"group_size": 16, "bits": 4, "mode": "nvfp4"})",
          {words("x.weight", "U32", {2, 4, 4}, 0x22222222), bytes("x.scales", "U8", {2, 4, 2}, 0x38),
           floats("x.global_scale", {2}, 3)}};
}

/// With a second matrix, "y", whose parts are those of "x".
Parts two(Parts parts) {
  for (Tensor tensor : std::vector<Tensor>(parts.tensors)) {
    tensor.name.replace(0, 1, "y");
    parts.tensors.push_back(tensor);
  }
  return parts;
}

/// Opens the folder and reads every tensor in both ways.
void read_all(const Parts& parts) {
  const TemporaryFolder folder;
  folder.write("model.safetensors", safetensors(parts.tensors));
  folder.write("config.json", "{\"quantization_config\": " + parts.block + "}");
  const Checkpoint checkpoint(folder.path());
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    const WeightSource source = checkpoint.weight(name, tensor.shape);
    kept_values(source, source.outputs);
    if (source.read_exact) exact_values(source, source.outputs);
  }
}

struct BadFolder {
  std::string name;
  Parts parts;
  std::vector<std::string> words;
};

void PrintTo(const BadFolder& bad, std::ostream* out) { *out << bad.name; }

class BadQuantizedFolder : public ::testing::TestWithParam<BadFolder> {};

TEST_P(BadQuantizedFolder, IsRefusedInOneSentenceThatNamesWhatIsWrong) {
  const std::string message = error_of([&] { read_all(GetParam().parts); });
  for (const std::string& word : GetParam().words) EXPECT_THAT(message, HasSubstr(word));
  EXPECT_THAT(message, ::testing::Not(HasSubstr("\n")));
  EXPECT_LT(message.size(), 1000U);
}

TEST(QuantizedFolders, ThoseThatTheBadOnesDifferFromAreRead) {
  for (const Parts& parts :
       {fp8(), gptq(), awq(), packed(), int8(), nvfp4(), modelopt(), bitnet(), mxfp4(), mlx(), mlx_experts()}) {
    EXPECT_NO_THROW(read_all(parts));
    EXPECT_NO_THROW(read_all(two(parts)));
  }
}

/// The same parts with a change.
template <class Change>
Parts with(Parts parts, Change change) {
  change(parts);
  return parts;
}

std::vector<BadFolder> bad_folders() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const auto scaled = [](Parts parts, const std::string& name, float value) {
    parts[name] = floats(name, parts[name].shape, value);
    return parts;
  };
  const auto shaped = [](Parts parts, const std::string& name, std::vector<std::int64_t> shape) {
    parts[name].shape = std::move(shape);
    return parts;
  };
  const auto without = [](Parts parts, const std::string& name) { return parts.remove(name); };
  const auto saying = [](Parts parts, const std::string& from, const std::string& to) {
    return parts.replace(from, to);
  };
  std::vector<BadFolder> bad = {
      {"method_unknown",
       saying(fp8(), "fp8", "bitsandbytes"),
       {"config.json", "quant_method", "'bitsandbytes' is not read; read are fp8", "MLX"}},
      {"method_missing", saying(fp8(), R"("quant_method": "fp8", )", ""), {"quantization_config.quant_method"}},
      {"block_a_list", with(fp8(), [](Parts& p) { p.block = "[]"; }), {"quantization_config", "must be a JSON object"}},
      {"nothing_quantized",
       with(fp8(),
            [](Parts& p) {
              p.tensors = {floats("x.weight", {2, 2}, 1)};
            }),
       {"quantization_config", "no tensor is"}},
      {"fp8_scale_nan",
       scaled(fp8(), "x.weight_scale_inv", nan),
       {"'x.weight_scale_inv'", "row 0, group 0", "not finite"}},
      {"fp8_scale_infinite",
       scaled(fp8(), "x.weight_scale_inv", infinity),
       {"'x.weight_scale_inv'", "inf", "not finite"}},
      {"fp8_scale_negative", scaled(fp8(), "x.weight_scale_inv", -1), {"'x.weight_scale_inv'", "positive"}},
      {"fp8_scale_zero", scaled(fp8(), "x.weight_scale_inv", 0), {"'x.weight_scale_inv'", "codes that are not zero"}},
      {"fp8_scale_shape", shaped(fp8(), "x.weight_scale_inv", {1, 4}), {"'x.weight_scale_inv'", "[1, 4]", "[2, 2]"}},
      {"fp8_scale_type",
       with(fp8(), [](Parts& p) { p["x.weight_scale_inv"].dtype = "I32"; }),
       {"'x.weight_scale_inv'", "'I32'", "F32"}},
      {"fp8_scale_missing", without(fp8(), "x.weight_scale_inv"), {"have no tensor 'x.weight_scale'", "fetch"}},
      {"fp8_codes_missing", without(two(fp8()), "x.weight"), {"have no tensor 'x.weight'"}},
      {"fp8_codes_not_quantized",
       with(two(fp8()),
            [](Parts& p) {
              p["x.weight"] = floats("x.weight", {32, 64}, 1);
            }),
       {"'x.weight_scale_inv'", "belongs to quantized codes, but 'x.weight' has type 'F32'"}},
      {"fp8_code_nan",
       with(fp8(), [](Parts& p) { p["x.weight"].bytes[70] = 0x7F; }),
       {"'x.weight'", "nan as element 70", "finite"}},
      {"fp8_vector", shaped(fp8(), "x.weight", {2048}), {"'x.weight'", "2 dimensions"}},
      {"fp8_empty",
       with(fp8(),
            [](Parts& p) {
              p["x.weight"] = {"x.weight", "F8_E4M3", {0, 64}, ""};
            }),
       {"'x.weight'", "[0, 64]"}},
      {"fp8_other_floats",
       saying(fp8(), R"("activation_scheme": "dynamic")", R"("fmt": "e5m2")"),
       {"fmt", "'e5m2'", "e4m3"}},
      {"fp8_scheme", saying(fp8(), "dynamic", "later"), {"activation_scheme", "'later'"}},
      {"fp8_block", saying(fp8(), "[16, 32]", "[16]"), {"weight_block_size", "[rows, inputs]"}},
      {"fp8_block_zero", saying(fp8(), "[16, 32]", "[0, 32]"), {"weight_block_size"}},
      {"gptq_bits", saying(gptq(), "4,", "5,"), {"bits", "must be 2, 3, 4 or 8"}},
      {"gptq_three_bits", saying(gptq(), "4,", "3,"), {"'x.qweight'", "[8, 8]", "[7, 8]"}},
      {"gptq_group", saying(gptq(), "32", "0"), {"group_size", "positive"}},
      {"gptq_group_other", saying(gptq(), "32", "16"), {"'x.scales'", "[2, 8]", "[4, 8]"}},
      {"gptq_format", saying(gptq(), "\"gptq\"}", "\"marlin\"}"), {"checkpoint_format", "'marlin'"}},
      {"gptq_group_out_of_range",
       with(gptq(), [](Parts& p) { p["x.g_idx"] = words("x.g_idx", "I32", {64}, 2); }),
       {"'x.g_idx'", "input 0 into group 2", "there are 2"}},
      {"gptq_group_negative",
       with(gptq(), [](Parts& p) { p["x.g_idx"] = words("x.g_idx", "I32", {64}, 0xFFFFFFFF); }),
       {"'x.g_idx'", "group -1"}},
      {"gptq_order_short",
       shaped(with(gptq(), [](Parts& p) { p["x.g_idx"].bytes.resize(128); }), "x.g_idx", {32}),
       {"'x.g_idx'", "[32]", "[64]"}},
      {"gptq_not_symmetric",
       with(gptq(),
            [](Parts& p) {
              p["x.qzeros"] = words("x.qzeros", "I32", {2, 1}, 0x77777767);
            }),
       {"'x.qzeros'", "output 1", "zero point 7", "set sym to false"}},
      {"gptq_order_missing",
       saying(without(gptq(), "x.g_idx"), R"("sym")", R"("desc_act": true, "sym")"),
       {"have no tensor 'x.g_idx'"}},
      {"gptq_codes_missing", without(two(gptq()), "x.qweight"), {"have no tensor 'x.qweight'"}},
      {"gptq_zeros_missing", without(gptq(), "x.qzeros"), {"'x.qzeros'"}},
      {"gptq_scales_and_zeros_missing", without(without(gptq(), "x.qzeros"), "x.scales"), {"'x.scales', 'x.qzeros'"}},
      {"gptq_scale_too_large",
       with(scaled(gptq(), "x.scales", 1e6F), [](Parts& p) { p.remove("x.g_idx"); }),
       {"'x.scales'", "1000000", "too large for f16"}},
      {"gptq_also_unquantized",
       with(gptq(),
            [](Parts& p) {
              p.tensors.push_back(floats("x.weight", {8, 64}, 1));
            }),
       {"'x.qweight'", "'x.weight'", "remove one"}},
      {"awq_codes_missing", without(two(awq()), "x.qweight"), {"have no tensor 'x.qweight'"}},
      {"awq_bits", saying(awq(), "4,", "8,"), {"bits", "must be 4"}},
      {"awq_version", saying(awq(), "gemm", "gemv"), {"version", "'gemv'", "gemm"}},
      {"awq_zeros_shape", shaped(awq(), "x.qzeros", {1, 2}), {"'x.qzeros'", "[1, 2]", "[2, 1]"}},
      {"awq_zeros_type", with(awq(), [](Parts& p) { p["x.qzeros"].dtype = "F32"; }), {"'x.qzeros'", "'F32'", "I32"}},
      {"packed_format", saying(packed(), "pack-quantized", "marlin-24"), {"group_0", "'marlin-24'", "pack-quantized"}},
      {"packed_bits", saying(packed(), "\"num_bits\": 4", "\"num_bits\": 3"), {"num_bits", "must be 4 or 8"}},
      {"packed_strategy", saying(packed(), "\"group\"", "\"attn_head\""), {"strategy", "'attn_head'"}},
      {"packed_shape",
       with(packed(),
            [](Parts& p) {
              p["x.weight_shape"].bytes = bytes_of(std::vector<std::int64_t>{8, 65});
            }),
       {"'x.weight_shape'", "[8, 65]", "[8, 8]"}},
      {"packed_shape_negative",
       with(packed(),
            [](Parts& p) {
              p["x.weight_shape"].bytes = bytes_of(std::vector<std::int64_t>{8, -64});
            }),
       {"'x.weight_shape'", "[8, -64]"}},
      {"packed_codes_missing", without(two(packed()), "x.weight_packed"), {"have no tensor 'x.weight_packed'"}},
      {"packed_order_missing",
       saying(packed(), R"("group_size")", R"("actorder": "group", "group_size")"),
       {"have no tensor 'x.weight_g_idx'"}},
      {"packed_order_unknown",
       saying(packed(), R"("group_size")", R"("actorder": "random", "group_size")"),
       {"actorder", "'random'"}},
      {"bytes_zeros_missing", without(int8(), "x.weight_zero_point"), {"have no tensor 'x.weight_zero_point'"}},
      {"packed_zeros_missing", without(packed(), "x.weight_zero_point"), {"'x.weight_zero_point'"}},
      {"packed_sparse",
       saying(packed(), R"("format": )", R"("sparsity_config": {"format": "sparse-24-bitmask"}, "format": )"),
       {"sparsity_config.format", "'sparse-24-bitmask'"}},
      {"packed_rotated",
       saying(packed(), R"("format": )", R"("transform_config": {"config_groups": {"R1": {}}}, "format": )"),
       {"transform_config", "rotates"}},
      {"packed_in_two_ways",
       saying(packed(), R"("group_0": )",
              R"("other": {"weights": {"num_bits": 8, "type": "int", "strategy": "channel"}}, "group_0": )"),
       {"group_0", "in another way"}},
      {"nothing_in_groups", saying(packed(), "\"weights\"", "\"input_activations\""), {"config_groups", "no group"}},
      {"nvfp4_whole_zero", scaled(nvfp4(), "x.weight_global_scale", 0), {"'x.weight_global_scale'", "every scale"}},
      {"nvfp4_whole_of_two",
       shaped(with(nvfp4(), [](Parts& p) { p["x.weight_global_scale"].bytes += "1234"; }), "x.weight_global_scale",
              {2}),
       {"'x.weight_global_scale'", "[2]", "[1]"}},
      {"nvfp4_whole_nan", scaled(nvfp4(), "x.weight_global_scale", nan), {"'x.weight_global_scale'", "nan"}},
      {"nvfp4_whole_missing", without(nvfp4(), "x.weight_global_scale"), {"'x.weight_global_scale'"}},
      {"nvfp4_scale_nan",
       with(nvfp4(), [](Parts& p) { p["x.weight_scale"].bytes[3] = 0x7F; }),
       {"'x.weight_scale'", "row 1, group 1", "not finite"}},
      {"nvfp4_scale_negative",
       with(nvfp4(), [](Parts& p) { p["x.weight_scale"].bytes[0] = static_cast<char>(0xB8); }),
       {"'x.weight_scale'", "positive"}},
      {"modelopt_algorithm", saying(modelopt(), "NVFP4", "W4A8_AWQ"), {"quant_algo", "'W4A8_AWQ'", "FP8 and NVFP4"}},
      {"modelopt_whole_missing", without(modelopt(), "x.weight_scale_2"), {"have no tensor 'x.weight_scale_2'"}},
      {"modelopt_whole_infinite", scaled(modelopt(), "x.weight_scale_2", infinity), {"'x.weight_scale_2'", "inf"}},
      {"modelopt_codes_missing", without(two(modelopt()), "x.weight"), {"have no tensor 'x.weight'"}},
      {"bitnet_online", saying(bitnet(), "offline", "online"), {"quantization_mode", "'online'", "rounds weights"}},
      {"bitnet_class", saying(bitnet(), "autobitlinear", "linear"), {"linear_class", "'linear'"}},
      {"bitnet_norms",
       saying(bitnet(), R"("linear_class")", R"("use_rms_norm": true, "linear_class")"),
       {"use_rms_norm", "norms before"}},
      {"bitnet_scale_missing", without(bitnet(), "x.weight_scale"), {"have no tensor 'x.weight_scale'"}},
      {"bitnet_scale_infinite", scaled(bitnet(), "x.weight_scale", infinity), {"'x.weight_scale'", "inf"}},
      {"bitnet_scale_of_rows",
       shaped(with(bitnet(), [](Parts& p) { p["x.weight_scale"].bytes += "1234"; }), "x.weight_scale", {2}),
       {"'x.weight_scale'", "[2]", "[1]"}},
      {"bitnet_code",
       with(bitnet(), [](Parts& p) { p["x.weight"].bytes[3 * 64 + 1] = 0x30; }),
       {"'x.weight'", "row 3", "none of -1, 0 and 1"}},
      {"bitnet_codes_missing", without(two(bitnet()), "x.weight"), {"have no tensor 'x.weight'"}},
      {"mxfp4_codes_missing", without(two(mxfp4()), "x_blocks"), {"have no tensor 'x_blocks'"}},
      {"mxfp4_scale_nan",
       with(mxfp4(), [](Parts& p) { p["x_scales"].bytes[15] = static_cast<char>(0xFF); }),
       {"'x_scales'", "row 7, group 1", "not finite"}},
      {"mxfp4_too_large",
       with(mxfp4(),
            [](Parts& p) {
              p["x_scales"].bytes[15] = static_cast<char>(0xFE);
              p["x_blocks"].bytes.back() = 0x77;
            }),
       {"'x_scales'", "row 7, group 1", "too large for weights"}},
      {"mxfp4_scales_shape", shaped(mxfp4(), "x_scales", {2, 2, 4}), {"'x_scales'", "[2, 2, 4]", "[2, 4, 2]"}},
      {"mxfp4_blocks_shape", shaped(mxfp4(), "x_blocks", {2, 4, 4, 8}), {"'x_blocks'", "[2, 4, 4, 16]"}},
      {"mxfp4_scales_missing", without(mxfp4(), "x_scales"), {"'x_scales'"}},
      {"mlx_bits", saying(mlx(), "\"bits\": 4", "\"bits\": 7"), {"bits", "must be 2, 3, 4, 5, 6 or 8"}},
      {"mlx_mode", saying(mlx(), "\"bits\": 4", R"("bits": 4, "mode": "nvfp8")"), {"mode", "'nvfp8'", "affine"}},
      {"mlx_mode_group",
       saying(mlx(), "\"bits\": 4", R"("bits": 4, "mode": "nvfp4")"),
       {"group_size: must be 16 in the mode nvfp4"}},
      {"mlx_mode_bits", saying(mlx(), "\"bits\": 4", R"("bits": 4, "mode": "mxfp8")"), {"bits: must be 8 in the mode"}},
      {"mlx_mode_scales", saying(mlx(), "\"bits\": 4", R"("bits": 4, "mode": "mxfp4")"), {"'x.scales'", "'F32'", "U8"}},
      {"mlx_module_left_out",
       saying(mlx(), "\"bits\": 4", R"("bits": 4, "x": false)"),
       {"must not be false", "'x.weight'"}},
      {"mlx_global_scale_of_affine",
       saying(mlx(), "\"bits\": 4", R"("bits": 4, "global_scale": true)"),
       {"global_scale: is that of the mode nvfp4"}},
      {"mlx_global_scale_missing",
       without(saying(mlx_experts(), "\"bits\": 4", R"("bits": 4, "global_scale": true)"), "x.global_scale"),
       {"have no tensor 'x.global_scale'"}},
      {"mlx_global_scales_shape",
       shaped(mlx_experts(), "x.global_scale", {1, 2}),
       {"'x.global_scale'", "[1, 2]", "[2]"}},
      {"mlx_global_scale_zero",
       scaled(mlx_experts(), "x.global_scale", 0),
       {"'x.global_scale' has 0.0", "every scale"}},
      {"mlx_global_scale_of_no_codes",
       with(mlx(), [](Parts& p) { p.tensors.push_back(floats("z.global_scale", {1}, 1)); }),
       {"have no tensor 'z.weight'"}},
      {"mlx_experts_scales_shape", shaped(mlx_experts(), "x.scales", {4, 2, 2}), {"'x.scales'", "[2, 4, 2]"}},
      {"mlx_dimensions",
       shaped(mlx_experts(), "x.weight", {2, 2, 2, 4}),
       {"'x.weight'", "[2, 2, 2, 4]", "2 dimensions"}},
      {"mlx_bits_of_a_module",
       saying(mlx(), "\"bits\": 4", R"("bits": 4, "x": {"group_size": 32, "bits": 8})"),
       {"'x.scales'", "[8, 2]", "[8, 1]"}},
      {"mlx_biases_missing", without(mlx(), "x.biases"), {"'x.biases'"}},
      {"mlx_codes_missing", without(two(mlx()), "x.weight"), {"have no tensor 'x.weight'"}},
      {"mlx_bias_nan", scaled(mlx(), "x.biases", nan), {"'x.biases'", "row 0, group 0", "not finite"}},
      {"mlx_bias_too_large", scaled(mlx(), "x.biases", 1e6F), {"'x.biases'", "1000000", "too large for f16"}},
  };
  return bad;
}

INSTANTIATE_TEST_SUITE_P(All, BadQuantizedFolder, ::testing::ValuesIn(bad_folders()),
                         [](const auto& info) { return info.param.name; });

TEST(QuantizedFolders, AScaleOfZeroIsThatOfCodesThatAreZero) {
  Parts parts = fp8();
  parts["x.weight_scale_inv"] = floats("x.weight_scale_inv", {2, 2}, 0);
  parts["x.weight"] = bytes("x.weight", "F8_E4M3", {32, 64}, 0);
  EXPECT_NO_THROW(read_all(parts));
}

TEST(QuantizedFolders, GroupsOfBytesAreReadByTheirOwnTypesAndBlocks) {
  Parts parts = fp8();
  parts.block = R"({"quant_method": "compressed-tensors", "config_groups": {
    "group_0": {"format": "int-quantized", "weights": {"num_bits": 8, "type": "int", "strategy": "channel"}},
    "group_1": {"format": "float-quantized", "weights": {"num_bits": 8, "type": "float", "strategy": "block",
                                                         "block_structure": [16, 32]}}}})";
  parts["x.weight_scale_inv"].name = "x.weight_scale";
  Parts others = int8();
  for (Tensor tensor : others.remove("x.weight_zero_point").tensors) {
    tensor.name.replace(0, 1, "y");
    parts.tensors.push_back(tensor);
  }
  EXPECT_NO_THROW(read_all(parts));
}

TEST(QuantizedFolders, AValueThatIsExactlyZeroHasNoRelativeError) {
  Parts parts = mlx();
  parts["x.weight"] = words("x.weight", "U32", {8, 8}, 0x33333333);
  parts["x.scales"] = floats("x.scales", {8, 2}, 0.1F);
  parts["x.biases"] = floats("x.biases", {8, 2}, -(0.1F * 3));
  const TemporaryFolder folder;
  folder.write("model.safetensors", safetensors(parts.tensors));
  folder.write("config.json", "{\"quantization_config\": " + parts.block + "}");
  const Checkpoint checkpoint(folder.path());
  const WeightSource source = checkpoint.weight("x.weight", {8, 64});
  EXPECT_EQ(exact_values(source, 8)[0], 0);
  EXPECT_NE(kept_values(source, 8)[0], 0);
  EXPECT_EQ(measure_unpacking(checkpoint).max, 0);
}

TEST(QuantizedFolders, ScalesOfActivationsAndOfTheCacheAreLeftOutAndCounted) {
  Parts parts = fp8();
  parts.tensors.push_back(floats("x.input_scale", {1}, 1));
  parts.tensors.push_back(floats("y.k_scale", {1}, 1));
  const TemporaryFolder folder;
  folder.write("model.safetensors", safetensors(parts.tensors));
  folder.write("config.json", "{\"quantization_config\": " + parts.block + "}");
  const Checkpoint checkpoint(folder.path());
  EXPECT_EQ(checkpoint.tensors().size(), 1U);
  EXPECT_EQ(checkpoint.quantization()->ignored, 2U);
  EXPECT_EQ(checkpoint.quantization()->activations, "not quantized to fp8, as other engines do");
  EXPECT_EQ(checkpoint.bytes(), 32U * 64 + 4 * sizeof(float));
}

TEST(QuantizedFolders, AConfigAloneIsRefusedWhereTensorsSayWhatItsWeightsBecome) {
  const auto read = [](const std::string& block) {
    require_known_weights(Json::parse("{\"quantization_config\": " + block + "}", "config.json"));
  };
  for (const Parts& parts : {gptq(), awq(), packed(), bitnet(), mlx()}) {
    EXPECT_THAT(error_of([&] { read(parts.block); }),
                ::testing::AllOf(HasSubstr("config.json: field quantization_config"), HasSubstr("fetch the folder")));
  }
  for (const std::string& block : {std::string("null"), fp8().block, mxfp4().block, modelopt().block})
    EXPECT_NO_THROW(read(block));
}

TEST(QuantizedFolders, MatricesWithOtherScalesOfScalesAreNotTheSame) {
  for (const Parts& one : {nvfp4(), modelopt()}) {
    Parts parts = two(one);
    Tensor& whole = parts.tensors.back();
    whole = floats(whole.name, whole.shape, 4);
    const TemporaryFolder folder;
    folder.write("model.safetensors", safetensors(parts.tensors));
    folder.write("config.json", "{\"quantization_config\": " + parts.block + "}");
    EXPECT_FALSE(Checkpoint(folder.path()).same("x.weight", "y.weight"));
  }
}

TEST(QuantizedFolders, EqualMatricesAreTheSameInEveryPart) {
  Parts parts = fp8();
  for (const Tensor& tensor : fp8().tensors) {
    for (const char* const name : {"y", "z"}) {
      parts.tensors.push_back(tensor);
      parts.tensors.back().name.replace(0, 1, name);
    }
  }
  parts["z.weight_scale_inv"] = floats("z.weight_scale_inv", {2, 2}, 0.25F);
  const TemporaryFolder folder;
  folder.write("model.safetensors", safetensors(parts.tensors));
  folder.write("config.json", "{\"quantization_config\": " + parts.block + "}");
  const Checkpoint checkpoint(folder.path());
  EXPECT_TRUE(checkpoint.same("x.weight", "y.weight"));
  EXPECT_FALSE(checkpoint.same("x.weight", "z.weight"));
}

}  // namespace
}  // namespace draftproof::quantized_folder_test
