#include "study_children.hpp"

#include <filesystem>
#include <utility>

#include "exit_code.hpp"
#include "output.hpp"
#include "privgrad/train/run.hpp"

namespace privgrad::tool {
namespace {

/// The time in which a run must finish its step or federated round; slower runs are killed.
constexpr int kLongestStopMs = 10'000;

}  // namespace

void StudyChildren::start(std::size_t number, const OpenRun& run, RunPlace place) {
  Begun& begun = begun_[number];
  begun = {.run = run, .place = std::move(place)};
  start(number, begun);
}

void StudyChildren::start(std::size_t number, Begun& begun) {
  begun.goes_on = core::can_be_resumed(options_at(begun.place));
  runs_.start(number, call_for(begun.place, begun.run, arguments_));
}

std::vector<ChildRuns::Ended> StudyChildren::wait(int most_ms) {
  std::vector<ChildRuns::Ended> ended = runs_.wait(most_ms);
  std::erase_if(ended,
                [&](const ChildRuns::Ended& one) { return begins_anew(one.number, one.end); });
  return ended;
}

/// Handles a failed run. \returns whether it begins anew.
bool StudyChildren::begins_anew(std::size_t number, const ChildEnd& end) {
  Begun& begun = begun_.at(number);
  if (end.by_signal || std::filesystem::exists(begun.place.directory / "summary.json"))
    return false;
  discard_run(begun.place);
  if (!begun.goes_on || end.code != kRefusedForPrivacy) return false;
  complain("note",
           run_name(plan_, begun.run) + ": cannot be resumed, and begins anew: " + reason(end));
  start(number, begun);
  return true;
}

void StudyChildren::stop() { runs_.stop(kLongestStopMs); }

}  // namespace privgrad::tool
