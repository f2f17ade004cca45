// Renyi divergences of the best of a random number of runs, from the divergences of one run.
#pragma once

namespace rdp {

/// Bounds the cost of the best of K runs, with K drawn beforehand (privgrad::RepeatAndSelectEvent),
/// as log moments (renyi.hpp). All results are upper bounds, rounding errors included; if the
/// number for one run is a bound in both directions, so is the result.
///
/// Ordered by score, the output y of one run, which includes its score and a random number that
/// breaks ties, has density q and distribution function F on one data set, and q' and F' on a
/// neighbour. With f the generating function of K, the best of K has the density f'(F) q, and with
/// probability P(K = 0), on both data sets, there is no output. Hence
///
///     E_A'[(dA/dA')^a] = P(K = 0) + integral of q^a q'^(1-a) f'(F)^a f'(F')^(1-a),
///
/// and it remains to bound the factor of f', for all F and F'.
///
/// For a run that first draws one of several candidates, the moment is at most the mean of the
/// candidates' moments, because the exponential of the divergence is jointly convex. So it is at
/// most the largest of these moments.

/// For K with the truncated negative binomial distribution (Papernot and Steinke 2022, Theorem 2;
/// geometric, shape 1: Liu and Talwar 2019). With u = gamma + (1 - gamma) (1 - F), in [gamma, 1],
/// the factor is E K (gamma / u)^(1 + eta) (u' / u)^((a - 1) (1 + eta)), and u' / u <= e^c with c
/// from largest_log_ratio(). Hence the result: K(a) + ln E K + (a - 1) (1 + eta) c at each order.
/// \param log_moment  K(a) of one run at `order`, >= 0.
/// \param shape  eta.
/// \param log_ratio  c.
double best_of_negative_binomial(double order, double log_moment, double mean, double shape,
                                 double log_ratio);

/// Returns the c that a single order b of one run proves. u is the probability of an event that
/// follows from a run's output and an independent coin, so u'^b u^(1-b) <= e^K(b) and
/// u' / u <= (e^K(b) / u)^(1/b); as u >= gamma, c = (K(b) + ln(1 / gamma)) / b. At b = infinity, c
/// is the pure epsilon of one run; at b = 1, c is ln(1 / gamma). As K is convex, c decreases and
/// then increases with b. Every b gives a valid c for every computed order, so the smallest c is
/// used.
/// \param other_order  b >= 1.
/// \param log_inverse_gamma  ln(1 / gamma) >= 0.
double largest_log_ratio(double other_order, double log_moment, double log_inverse_gamma);

/// For a Poisson number of runs (Papernot and Steinke 2022, Theorem 6). The factor is
/// m exp(m ((a - 1) (1 - F') - a (1 - F))). A run that is (e, d)-private has
/// 1 - F' <= e^e (1 - F) + d, and with e = ln(a / (a - 1)) the exponent is at most m (a - 1) d. So
/// the moment is ln(e^-m + m exp(K(a) + (a - 1) m d)). The theorem has ln m + K(a) + (a - 1) m d;
/// the first term here, for no run, adds at most e^-m / m.
/// \param delta  d of one run at some epsilon up to poisson_epsilon(order).
double best_of_poisson(double order, double log_moment, double mean, double delta);

/// Returns ln(a / (a - 1)), rounded down.
double poisson_epsilon(double order);

}  // namespace rdp
