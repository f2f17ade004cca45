#include "export_usage.hpp"

#include "plugins.hpp"

namespace privgrad::tool {

Usage export_usage() {
  return {
      .name = "export",
      .summary =
          "Writes a trained model for programs of others: ONNX, a Hugging Face folder, or a "
          "state_dict.",
      .operands = {"MODEL"},
      .options = {{.name = "format",
                   .value = "FORMAT",
                   .doc =
                       "onnx, with the model's preprocessing (default); huggingface, for a model "
                       "that was begun by `pretrained`; or state_dict, for one that was begun "
                       "from a file of model.weights."},
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
          "in their\nplaces, a new output layer as output.safetensors, and what is said of its "
          "privacy as privacy.json.\nA state_dict is the file of model.weights with the trained "
          "weights in its names and order, and behind\nthem the tensors that began anew. Both "
          "need the run directory, and the file from which it began.\n\n"
          "exit codes: 0 done, 2 the call is wrong or ONNX has no words for a part of the model, 3 "
          "its run is\nnot over, 4 the model could not be read, or FILE not written",
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
