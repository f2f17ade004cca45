// The table of all subcommands. Declare a new one here and define it in a file cmd_*.cpp.
#pragma once

#include <vector>

#include "arguments.hpp"
#include "output.hpp"
#include "privgrad/host/plugin_host.hpp"

namespace privgrad::tool {

/// A subcommand: its syntax and its function.
struct Command {
  Usage usage;
  int (*run)(const Arguments&) = nullptr;  ///< \returns the exit code; failures are thrown.
};

/// Prints a command's answer: the document with --json, otherwise the text.
inline void print_answer(const Arguments& arguments, const nlohmann::json& document,
                         std::string_view text) {
  if (arguments.has("json")) return print_json(document);
  print(text);
}

Command run_command();
Command plan_command();
Command ablate_command();
Command validate_command();
Command account_command();
Command calibrate_command();
Command noise_error_command();
Command bound_command();
Command falsify_command();
Command gpu_check_command();
Command influence_command();
Command audit_command();
Command plugins_list_command();
Command plugins_describe_command();
Command plugins_new_command();
Command plugins_docs_command();
Command plugins_test_command();
Command plugins_sign_command();
Command plugins_install_command();
Command plugins_remove_command();
Command report_command();
Command predict_command();
Command evaluate_command();
Command export_command();
Command verify_command();
Command schema_command();
Command data_list_command();
Command data_fetch_command();
Command data_describe_command();
Command policy_check_command();
Command cache_list_command();
Command cache_delete_command();
Command completion_command();
Command man_command();

/// Returns all subcommands, in the order in which help lists them.
const std::vector<Command>& commands();

}  // namespace privgrad::tool
