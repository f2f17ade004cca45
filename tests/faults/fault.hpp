// Tables of components with one fault each, and of what must find each fault.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "privgrad/plugin.hpp"

/// The thread on which tests begin, because some faults behave differently on other threads.
inline const std::thread::id kHome = std::this_thread::get_id();

/// Whether, and why, a fault may pass.
enum class Let {
  not_through = 1,  ///< Something must find it.
  harmless,         ///< It costs accuracy but never privacy, so nothing need find it.
  trusted,          ///< Trusted; `why` names the document that states this.
  gap,              ///< A fault that nothing finds, although something should.
};

/// A component with one defect.
struct Fault {
  std::string id;        ///< "sampler/rate_twice".
  std::string imitates;  ///< The mistake that it imitates, in one line.
  privgrad::Factory factory;
  std::vector<std::string> place;  ///< Overrides that put it into the manifest of faults_test.cpp.
  Let let = Let::not_through;
  std::string why = {};
};

/// The common part of the tables of all kinds.
struct Told {
  const char* id;
  const char* imitates;
  Let let = Let::not_through;
  const char* why = "";
};

/// Turns a table into faults: `Impl<I>` behaves as row I describes.
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
         // All traits, so that undeclared traits do not reveal the fault.
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

// Each has its own file. The first entry of each is the correct component, without a fault.
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

/// Returns a fault of any kind, by its id.
const Fault& fault_named(const std::string& id);
