// Tables of components with one fault each, and how a fault must be found.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "privgrad/plugin.hpp"

/// The thread that tests begin on: some faults behave otherwise on others.
inline const std::thread::id kHome = std::this_thread::get_id();

/// Why a fault is let through.
enum class Let {
  not_through = 1,  ///< Somebody must find it.
  harmless,         ///< It costs accuracy, never privacy: nobody need find it.
  trusted,          ///< Believed; `why` says where that is written.
  gap,              ///< A fault that nothing finds, and that something should.
};

/// A component with one defect.
struct Fault {
  std::string id;        ///< "sampler/rate_twice".
  std::string imitates;  ///< What went wrong, or could, in one line.
  privgrad::Factory factory;
  std::vector<std::string> place;  ///< Overrides that put it into the manifest of faults_test.cpp.
  Let let = Let::not_through;
  std::string why = {};
};

/// What the tables of all kinds have in common.
struct Told {
  const char* id;
  const char* imitates;
  Let let = Let::not_through;
  const char* why = "";
};

/// A table as faults: `Impl<I>` behaves as row I says.
template <class Interface, template <std::size_t> class Impl, class Table, std::size_t... I>
void add_rows(std::vector<Fault>& faults, const Table& table, const std::string& kind,
              const auto& place, const std::vector<privgrad::ParamSpec>& params,
              std::index_sequence<I...>) {
  const auto add = [&]<std::size_t Row>() {
    const auto& row = table[Row];
    privgrad::Registrar registrar;
    registrar.add<Interface, Impl<Row>>(
        {.name = row.told.id,
         .summary = "Broken on purpose.",
         .reference = "none: a definition",
         .params = params,
         // All, so that none is found by that alone.
         .traits = {privgrad::trait::kAll.begin(), privgrad::trait::kAll.end()}});
    faults.push_back({.id = kind + "/" + row.told.id,
                      .imitates = row.told.imitates,
                      .factory = registrar.factories().front(),
                      .place = place(row),
                      .let = row.told.let,
                      .why = row.told.why});
  };
  (add.template operator()<I>(), ...);
}
template <class Interface, template <std::size_t> class Impl, class Table>
std::vector<Fault> faults_of(const Table& table, const std::string& kind, const auto& place,
                             const std::vector<privgrad::ParamSpec>& params = {}) {
  std::vector<Fault> faults;
  add_rows<Interface, Impl>(faults, table, kind, place, params,
                            std::make_index_sequence<std::tuple_size_v<Table>>());
  return faults;
}

// One file each. The first fault of each is none: the component as it should be.
std::vector<Fault> sampler_faults();
std::vector<Fault> allocation_faults();
std::vector<Fault> aggregator_faults();
std::vector<Fault> accountant_faults();
std::vector<Fault> clipping_faults();
std::vector<Fault> program_faults();
std::vector<Fault> exact_program_faults();
std::vector<Fault> transform_faults();
std::vector<Fault> fitted_value_faults();
std::vector<Fault> statistic_faults();
std::vector<Fault> smuggler_faults();
std::vector<Fault> schedule_faults();
std::vector<Fault> optimizer_faults();
std::vector<Fault> model_faults();
std::vector<Fault> data_source_faults();

/// Of any kind, by its id.
const Fault& fault_named(const std::string& id);
