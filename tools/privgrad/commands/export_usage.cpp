#include "export_usage.hpp"

#include "plugins.hpp"

namespace privgrad::tool {

Usage export_usage() {
  return {
      .name = "export",
      .summary = "Writes a trained model for programs of others: ONNX, or a Hugging Face folder.",
      .operands = {"MODEL"},
      .options = {{.name = "format",
                   .value = "FORMAT",
                   .doc = "onnx, with the model's preprocessing (default), or huggingface, for a "
                          "model that was begun by `pretrained`."},
                  {.name = "out",
                   .value = "FILE",
                   .doc = "Write there; a file is replaced if it exists, a folder must be new."},
                  {.name = "estimator",
                   .value = "FILE",
                   .doc = "JSON of what an estimator for scikit-learn does around its model, to be "
                          "part of the graph; its export() writes it."},
                  plugin_dir_option()},
      .details =
          "MODEL is a run directory or its model.safetensors. The graph of a table takes its "
          "columns "
          "by name,\nraw, [n, 1] each; that of arrays and images `features`, float32 [n, ...]. It "
          "gives `probabilities`,\nfloat32 [n, classes], or `values` where the loss makes none, "
          "and "
          "of a table the name of each\nrow's `class`; a row that is not finite, or becomes so, "
          "gives NaN. The metadata have the privacy\nstatement in one line. docs/models.md has the "
          "rest.\n\n"
          "A Hugging Face folder is that from which the model was begun, with the trained weights "
          "in their\nplaces, the output layer as output.safetensors, and what is said of its "
          "privacy as privacy.json.\n\n"
          "exit codes: 0 done, 2 the call is wrong or ONNX has no words for a part of the model, 3 "
          "its run is\nnot over, 4 the model could not be read, or FILE not written",
      .examples = {"privgrad export runs/e2 --format onnx --out model.onnx",
                   "privgrad export runs/e2 --format huggingface --out private-minilm"}};
}

void check_export_call(const Arguments& arguments) {
  if (arguments.has("format") && arguments.text("format") != "onnx" && !is_for_folder(arguments)) {
    throw UsageError("--format is '" + arguments.text("format") +
                     "', expected onnx or huggingface");
  }
  if (!arguments.has("out") || arguments.text("out").empty())
    throw UsageError("export needs --out FILE");
  if (is_for_folder(arguments) && arguments.has("estimator"))
    throw UsageError("--estimator is for --format onnx");
}

bool is_for_folder(const Arguments& arguments) {
  return arguments.has("format") && arguments.text("format") == "huggingface";
}

}  // namespace privgrad::tool
