#include "export_usage.hpp"

#include "plugins.hpp"

namespace privgrad::tool {

Usage export_usage() {
  return {
      .name = "export",
      .summary =
          "Writes a trained model for other programs: ONNX, a Hugging Face folder, or a "
          "state_dict.",
      .operands = {"MODEL"},
      .options =
          {{"format", "FORMAT",
            "onnx, with the model's preprocessing (default); huggingface, for the model "
            "`pretrained`; or state_dict, for a model whose training began from a file of "
            "model.weights."},
           {"out", "FILE", "Write there; a file is replaced if it exists, a folder must be new."},
           {"estimator", "FILE",
            "A JSON file that the export() of an estimator for scikit-learn writes: what the "
            "estimator does before and after the model, which becomes part of the graph."},
           plugin_dir_option()},
      .details =
          "MODEL is a run directory or its model.safetensors. The inputs of a table's graph are "
          "its raw columns\nby name, [n, 1] each; for arrays and images the input is `features`, "
          "float32 [n, ...]. The output is\n`probabilities`, float32 [n, classes], or `values` for "
          "a regression, and for a table also each row's\n`class` by name; a row with values that "
          "are not finite, or that overflows, gives NaN. The metadata\nhave the privacy statement "
          "in one line. docs/models.md has the rest.\n\nA Hugging Face folder is a copy of the "
          "folder from which training began, with the trained weights in\ntheir places, a new "
          "output layer as output.safetensors, and the privacy statement as privacy.json.\nA "
          "state_dict is the file of model.weights with the trained weights under the same names "
          "and in the\nsame order, followed by the tensors that were initialised anew. Both need "
          "the run directory, and the\nfile from which training began.\n\n"
          "exit codes: 0 done, 2 the call is wrong or ONNX cannot express a part of the model, 3 "
          "its run has\nnot ended, 4 the model could not be read, or FILE not written",
      .examples = {"privgrad export runs/e2 --format onnx --out model.onnx",
                   "privgrad export runs/e2 --format huggingface --out private-minilm",
                   "privgrad export runs/e2 --format state_dict --out private.safetensors"}};
}

void check_export_call(const Arguments& arguments) {
  const std::string format = export_format(arguments);
  if (format != "onnx" && format != "huggingface" && format != "state_dict")
    throw UsageError("--format is '" + format + "', expected onnx, huggingface or state_dict");
  if (!arguments.has("out") || arguments.text("out").empty())
    throw UsageError("export needs --out FILE");
  if (format != "onnx" && arguments.has("estimator"))
    throw UsageError("--estimator is for --format onnx");
}

std::string export_format(const Arguments& arguments) {
  return arguments.has("format") ? arguments.text("format") : "onnx";
}

}  // namespace privgrad::tool
