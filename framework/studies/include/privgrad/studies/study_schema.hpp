#pragma once

#include <nlohmann/json_fwd.hpp>

#include "privgrad/catalog.hpp"

namespace privgrad::core {

/// A JSON Schema (draft 2020-12) for studies: editors complete and check them with it. A base that
/// stands in the study is checked as a manifest is, but for what may be missing because every arm
/// sets it.
///
/// What it accepts is what read_study() accepts, but for what a schema cannot say: that files exist,
/// that names and conditions mean something on the axes, and that every arm is a right manifest.
nlohmann::json study_schema(const Catalog& catalog);

}  // namespace privgrad::core
