#include "command.hpp"
#include "output.hpp"
#include "plugin_signature.hpp"
#include "plugins_test_usage.hpp"
#include "privgrad/record/signature.hpp"
#include "privgrad/trust/files.hpp"

namespace privgrad::tool {
namespace {

int do_plugins_sign(const Arguments& arguments) {
  const std::string& file = arguments.operand(0);
  check_plugin_file(file);
  if (!arguments.has("key")) throw UsageError("--key KEY is missing: the secret key to sign with");
  if (arguments.has("new-key")) core::make_signing_key(arguments.text("key"));
  const std::filesystem::path signature = signature_of(file);
  core::write_atomically(signature, sign_plugin(file, arguments.text("key")));
  print("signed: " + signature.string() + "\n");
  return 0;
}

}  // namespace

Command plugins_sign_command() {
  return {
      .usage = {.name = "plugins sign",
                .summary = "Signs a plugin file, so that its users can check who made it.",
                .operands = {"FILE"},
                .options = {{"key", "KEY", "The secret key to sign with."},
                            {"new-key", "", "Make that key first, and KEY.pub beside it."}},
                .details = "Leaves FILE.sig (Ed25519 over the file's SHA-256), which is published "
                           "beside the file. Keys are the same\nas for privgrad verify --sign.\n\n"
                           "exit codes: 0 done, 2 the call or the key is wrong, 4 a file could "
                           "not be read or written",
                .examples = {"privgrad plugins sign warm_up.privgrad.so --key ~/.config/me.key "
                             "--new-key"}},
      .run = do_plugins_sign};
}

}  // namespace privgrad::tool
