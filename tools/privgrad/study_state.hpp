#pragma once

#include "privgrad/catalog.hpp"
#include "privgrad/studies/study_directory.hpp"
#include "privgrad/studies/study_plan.hpp"

namespace privgrad::tool {

/// Writes what is known of a study before its first run: study.json, privgrad.lock and the arms.
///
/// In the directory of a study that was begun before, it first makes sure that the runs that are
/// there are runs of this study: the same program, the same plugins, the same manifests. Arms and
/// seeds may have been added or taken away.
/// \throws ConfigError naming what is not the same; nothing is written then.
void prepare_directory(const core::StudyDirectory& directory, const core::StudyPlan& plan,
                       const Catalog& catalog);

}  // namespace privgrad::tool
