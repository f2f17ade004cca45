#include "ratio_nodes.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pld {
namespace {

// The masses that nodes may ignore: under Q below the first node, and under P above the last node.
constexpr double kCut = 1e-19;
constexpr std::size_t kBins = 4000;  // bins of the logarithm, for densities
// Two laws are reduced to this many values each before the law of their sum is computed.
constexpr std::size_t kThin = 96;
// The number of values at each end that are not merged, because tails consist of few values.
constexpr std::size_t kEnds = 12;

/// The masses of P and Q in bins of ln(ratio).
struct Densities {
  double low = 0.0, width = 0.0;
  std::vector<double> p, q;

  double value(std::size_t bin, double inside) const {
    return std::exp(low + (static_cast<double>(bin) + inside) * width);
  }
};

struct Atoms {
  std::vector<double> log, p, q;
};

Atoms atoms_of(const RatioLaw& law) {
  Atoms atoms;
  for (std::size_t k = 0; k < law.value.size(); ++k) {
    if (law.value[k] <= 0.0 || law.mass[k] <= 0.0) continue;
    atoms.log.push_back(std::log(law.value[k]));
    atoms.p.push_back(law.mass[k] * law.value[k]);
    atoms.q.push_back(law.mass[k]);
  }
  double mean = 0.0;
  for (const double p : atoms.p) mean += p;
  for (double& p : atoms.p) p /= mean;
  return atoms;
}

/// Spreads a mass evenly over the bins between two places, which are measured in bins.
void spread(double from, double to, double mass, std::vector<double>& bins) {
  const double share = mass / std::max(to - from, 1e-300);
  for (auto bin = static_cast<std::size_t>(from); bin < kBins; ++bin) {
    const auto begin = static_cast<double>(bin);
    if (begin >= to) return;
    bins[bin] += share * (std::min(to, begin + 1.0) - std::max(from, begin));
  }
}

Densities densities_of(const RatioLaw& rough) {
  const Atoms atoms = atoms_of(rough);
  std::size_t first = 0, last = atoms.log.size() - 1;
  for (double mass = atoms.q[0]; first + 2 < last && mass < kCut; mass += atoms.q[first]) ++first;
  for (double mass = atoms.p[last]; first + 2 < last && mass < kCut; mass += atoms.p[last]) --last;
  Densities made{.low = atoms.log[first],
                 .width = (atoms.log[last] - atoms.log[first]) / kBins,
                 .p = std::vector<double>(kBins, 0.0),
                 .q = std::vector<double>(kBins, 0.0)};
  for (std::size_t k = first; k < last; ++k) {
    const double from = (atoms.log[k] - made.low) / made.width;
    const double to = (atoms.log[k + 1] - made.low) / made.width;
    spread(from, to, 0.5 * (atoms.p[k] + atoms.p[k + 1]), made.p);
    spread(from, to, 0.5 * (atoms.q[k] + atoms.q[k + 1]), made.q);
  }
  return made;
}

/// Adds `part`, scaled to this total weight, to `total`.
void add(double weight, const std::vector<double>& part, std::vector<double>& total) {
  double sum = 0.0;
  for (const double value : part) sum += value;
  for (std::size_t bin = 0; bin < kBins; ++bin) total[bin] += weight * part[bin] / sum;
}

/// Returns the share of the nodes in each bin. About half of the nodes follow the mass. The other
/// half is uniform in the ratio, because in a sum of many ratios the absolute width of a cell
/// counts. It ends at quantiles of P. It begins at a quantile of Q if the ratio there is above 1/2,
/// and otherwise at the first bin: few nodes lie below such a ratio, and they serve the other
/// direction of a step.
std::vector<double> node_density(const Densities& of) {
  std::vector<double> total(kBins, 0.0), part(kBins);
  for (std::size_t bin = 0; bin < kBins; ++bin)
    part[bin] = std::pow(std::max(of.p[bin], of.q[bin]) / of.width, 0.18);
  add(0.43, part, total);
  std::ranges::fill(part, 1.0);
  add(0.07, part, total);
  std::vector<double> value(kBins);
  for (std::size_t bin = 0; bin < kBins; ++bin) value[bin] = of.value(bin, 0.5);
  constexpr int kLast = 10, kFirst = 2;
  constexpr double kNotSmall = 0.5;
  std::size_t begin = 0, end = kBins;
  double below = 0.0, above = 0.0;
  for (int digits = kLast; digits >= kFirst; --digits) {
    const double share = std::pow(10.0, -digits);
    while (end > 1 && above + of.p[end - 1] < share) above += of.p[--end];
    while (begin + 1 < end && below + of.q[begin] < share) below += of.q[begin++];
    std::fill(value.begin() + static_cast<std::ptrdiff_t>(end), value.end(), 0.0);
    if (of.value(begin, 0.5) > kNotSmall)
      std::fill(value.begin(), value.begin() + static_cast<std::ptrdiff_t>(begin), 0.0);
    add(0.5 / (kLast - kFirst + 1), value, total);
  }
  return total;
}

std::vector<double> place(const RatioLaw& rough, std::size_t count) {
  const Densities densities = densities_of(rough);
  const std::vector<double> density = node_density(densities);
  std::vector<double> nodes{densities.value(0, 0.0)};
  std::size_t bin = 0;
  double below = 0.0;
  for (std::size_t k = 1; k < count; ++k) {
    const double goal = static_cast<double>(k) / static_cast<double>(count - 1);
    while (bin + 1 < kBins && below + density[bin] < goal) below += density[bin++];
    const double node = densities.value(bin, std::min(1.0, (goal - below) / density[bin]));
    if (node > nodes.back()) nodes.push_back(node);
  }
  return nodes;
}

/// Merges neighbouring atoms into one atom at their mean.
class Collector {
 public:
  void add(double value, double mass) {
    mass_ += mass;
    moment_ += mass * value;
  }
  void close(RatioLaw& law) {
    if (mass_ > 0.0) {
      law.value.push_back(moment_ / mass_);
      law.mass.push_back(mass_);
    }
    mass_ = moment_ = 0.0;
  }

 private:
  double mass_ = 0.0, moment_ = 0.0;
};

RatioLaw thinned(const RatioLaw& law) {
  const std::size_t size = law.value.size();
  if (size <= kThin) return law;
  RatioLaw thin;
  Collector collector;
  const std::size_t groups = kThin - 2 * kEnds, inner = size - 2 * kEnds;
  std::size_t group = 0;
  for (std::size_t k = 0; k < size; ++k) {
    collector.add(law.value[k], law.mass[k]);
    const bool is_inside = k >= kEnds && k + kEnds < size;
    if (is_inside && (k + 1 - kEnds) < inner * (group + 1) / groups) continue;
    if (is_inside) ++group;
    collector.close(thin);
  }
  return thin;
}

RatioLaw product(const RatioLaw& a, const RatioLaw& b) {
  std::vector<std::pair<double, double>> atoms;
  atoms.reserve(a.value.size() * b.value.size());
  for (std::size_t i = 0; i < a.value.size(); ++i) {
    for (std::size_t j = 0; j < b.value.size(); ++j)
      atoms.emplace_back(a.value[i] + b.value[j], a.mass[i] * b.mass[j]);
  }
  std::ranges::sort(atoms);
  constexpr std::size_t kGroup = 16;
  RatioLaw law;
  Collector collector;
  for (std::size_t k = 0; k < atoms.size(); ++k) {
    collector.add(atoms[k].first, atoms[k].second);
    if ((k + 1) % kGroup == 0 || k + 1 == atoms.size()) collector.close(law);
  }
  return law;
}

}  // namespace

std::vector<double> nodes_of_lognormal(double sigma, std::size_t count) {
  const double s = 1.0 / sigma;
  const double low = -9.5, high = 9.5 + s;
  RatioLaw rough;
  for (std::size_t k = 0; k < kBins; ++k) {
    const double z = low + (high - low) * (static_cast<double>(k) + 0.5) / kBins;
    rough.value.push_back(std::exp(s * z - 0.5 * s * s));
    rough.mass.push_back(std::exp(-0.5 * z * z));
  }
  return place(rough, count);
}

std::vector<double> nodes_of_sum(const RatioLaw& a, const RatioLaw& b, std::size_t count) {
  return place(product(thinned(a), thinned(b)), count);
}

}  // namespace pld
