#include "privgrad/accountant.hpp"
#include "privgrad/aggregator.hpp"
#include "privgrad/backend.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/model.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/random.hpp"
#include "privgrad/sampler.hpp"
#include "privgrad/schedule.hpp"
#include "privgrad/transform.hpp"

namespace privgrad {

// Key functions: they pin each interface's vtable and typeinfo to this library.
Accountant::~Accountant() = default;
Aggregator::~Aggregator() = default;
Backend::~Backend() = default;
Checkpointable::~Checkpointable() = default;
DataSource::~DataSource() = default;
Executor::~Executor() = default;
Model::~Model() = default;
Optimizer::~Optimizer() = default;
Program::~Program() = default;
RandomSource::~RandomSource() = default;
RandomStream::~RandomStream() = default;
Sampler::~Sampler() = default;
Schedule::~Schedule() = default;
SelfExecuting::~SelfExecuting() = default;
Transform::~Transform() = default;

ParamSpec statistics_param() {
  return param::text("statistics",
                     "Whether the rows that the statistics are computed from are private (then "
                     "they are listed "
                     "as unaccounted, and refused in release mode) or declared public.")
      .one_of({"unaccounted", "public"})
      .defaults_to("unaccounted");
}

Statistic statistic_from(const Params& params) {
  return params.text("statistics") == "public" ? Statistic::is_public : Statistic::unaccounted;
}

}  // namespace privgrad
