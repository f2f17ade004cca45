#include "known_datasets.hpp"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "privgrad/error.hpp"
#include "privgrad/names.hpp"
#include "privgrad/params.hpp"
#include "privgrad/trust/files.hpp"
#include "privgrad/trust/json_problem.hpp"

namespace privgrad::tool {
namespace {

using Json = nlohmann::json;

// The sources of the checksums.
//
// mnist: the download scripts of many projects pin these SHA-256 sums of the .gz files, for both
// addresses. The IDX files inside have the MD5 sums that the same projects list for the originals,
// and were compared with an independent, lossless copy of the images.
//
// fashion-mnist: the sums were computed from files with the git blob ids of Zalando's repository
// and the MD5 sums of its README.
//
// cifar10: the page of the data set (www.cs.toronto.edu/~kriz/cifar.html) gives the MD5 sum
// c32a1d4ab5d03f1284b67883e8d87530 for the binary version. Several projects pin this SHA-256 sum
// for the archive (among them the Go and Ruby readers of CIFAR-10), and one of them lists it beside
// that MD5 sum and the size. We have not seen the archive itself.
constexpr std::string_view kBuiltIn = R"json([
{
  "name": "mnist",
  "summary": "Handwritten digits.",
  "train_rows": 60000, "test_rows": 10000, "shape": [28, 28], "classes": 10,
  "licence": "CC BY-SA 3.0",
  "source": "LeCun, Cortes and Burges, http://yann.lecun.com/exdb/mnist/",
  "mirrors": ["https://storage.googleapis.com/cvdf-datasets/mnist/",
              "https://ossci-datasets.s3.amazonaws.com/mnist/"],
  "files": [
    {"name": "train-images-idx3-ubyte.gz", "bytes": 9912422,
     "sha256": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
    {"name": "train-labels-idx1-ubyte.gz", "bytes": 28881,
     "sha256": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
    {"name": "t10k-images-idx3-ubyte.gz", "bytes": 1648877,
     "sha256": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
    {"name": "t10k-labels-idx1-ubyte.gz", "bytes": 4542,
     "sha256": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"}
  ]
},
{
  "name": "fashion-mnist",
  "summary": "Articles of clothing, as a harder MNIST.",
  "train_rows": 60000, "test_rows": 10000, "shape": [28, 28], "classes": 10,
  "licence": "MIT",
  "source": "Xiao, Rasul and Vollgraf, https://github.com/zalandoresearch/fashion-mnist",
  "mirrors": ["https://fashion-mnist.s3.eu-central-1.amazonaws.com/",
              "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
              "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/b2617bb6d3ffa2e429640350f613e3291e10b141/data/fashion/"],
  "files": [
    {"name": "train-images-idx3-ubyte.gz", "bytes": 26421880,
     "sha256": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"},
    {"name": "train-labels-idx1-ubyte.gz", "bytes": 29515,
     "sha256": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"},
    {"name": "t10k-images-idx3-ubyte.gz", "bytes": 4422102,
     "sha256": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"},
    {"name": "t10k-labels-idx1-ubyte.gz", "bytes": 5148,
     "sha256": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"}
  ]
},
{
  "name": "cifar10",
  "summary": "Small colour photographs of ten kinds of things.",
  "train_rows": 50000, "test_rows": 10000, "shape": [32, 32, 3], "classes": 10,
  "licence": "none stated",
  "source": "Krizhevsky, Nair and Hinton, https://www.cs.toronto.edu/~kriz/cifar.html",
  "mirrors": ["https://www.cs.toronto.edu/~kriz/",
              "https://cave.cs.toronto.edu/kriz/",
              "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/"],
  "files": [
    {"name": "cifar-10-binary.tar.gz", "bytes": 170052171,
     "sha256": "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"}
  ],
  "unpack": "cifar10_binary"
}
])json";

class Reader {
 public:
  Reader(std::string source, bool local_http)
      : source_(std::move(source)), local_http_(local_http) {}

  std::vector<KnownDataset> datasets(std::string_view text) const {
    if (const std::string wrong = core::json_problem(8, text); !wrong.empty()) fail(wrong);
    Json json = Json::parse(text, nullptr, false);
    if (!json.is_array()) fail("is not a JSON list of data sets");
    std::vector<KnownDataset> out;
    std::set<std::string> names;
    for (const Json& one : json) {
      out.push_back(dataset(one));
      if (!names.insert(out.back().name).second) fail("names '" + out.back().name + "' twice");
    }
    return out;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw ConfigError(source_ + ": " + what);
  }

  KnownDataset dataset(const Json& json) const try {
    KnownDataset d;
    d.name = plain_name(json.at("name"));
    d.summary = json.value("summary", "");
    d.train_rows = whole(json.at("train_rows"));
    d.test_rows = whole(json.at("test_rows"));
    for (const Json& extent : json.at("shape")) d.shape.push_back(whole(extent));
    d.classes = whole(json.at("classes"));
    d.licence = json.value("licence", "none stated");
    d.source = json.value("source", "");
    for (const Json& one : json.at("files")) d.files.push_back(file(one, json.at("mirrors")));
    if (d.files.empty()) fail("'" + d.name + "' has no files");
    const std::string unpack = json.value("unpack", "nothing");
    if (unpack != "nothing" && unpack != "cifar10_binary") {
      fail("unpack is '" + unpack + "', allowed are nothing and cifar10_binary");
    }
    if (unpack == "cifar10_binary") {
      d.unpack = Unpack::cifar10_binary;
      if (d.files.size() != 1) fail("'" + d.name + "' unpacks one archive, and has other files");
    }
    return d;
  } catch (const Json::exception& problem) {
    fail(std::string("a data set is not as expected: ") + problem.what());
  }

  DatasetFile file(const Json& json, const Json& mirrors) const {
    DatasetFile f;
    f.name = plain_name(json.at("name"));
    f.bytes = whole(json.at("bytes"));
    f.sha256 = json.at("sha256").get<std::string>();
    const bool is_hex = std::ranges::all_of(
        f.sha256, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
    if (f.sha256.size() != 64 || !is_hex) {
      fail("sha256 of '" + f.name + "' is not 64 lower-case hex digits");
    }
    for (const Json& mirror : mirrors) f.addresses.push_back(address(mirror) + f.name);
    if (f.addresses.empty()) fail("'" + f.name + "' has no address");
    return f;
  }

  std::uint64_t whole(const Json& json) const {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 48;
    if (json.is_number_unsigned() && json.get<std::uint64_t>() <= kMost) {
      return json.get<std::uint64_t>();
    }
    fail(json.dump() + " is not a number of rows, bytes or classes");
  }

  /// Returns the name of a file or folder. Refuses paths, so that nothing is written elsewhere.
  std::string plain_name(const Json& json) const {
    auto name = json.get<std::string>();
    if (name.empty() || name.front() == '.' || name.find('/') != name.npos ||
        name.find('\0') != name.npos || name == kReserved) {
      fail("'" + name + "' is not a name for a file");
    }
    return name;
  }

  std::string address(const Json& json) const {
    auto text = json.get<std::string>();
    if (text.starts_with("https://")) return text;
    if (local_http_ &&
        (text.starts_with("http://127.0.0.1:") || text.starts_with("http://localhost:"))) {
      return text;
    }
    fail("'" + text + "' is not an https address");
  }

  static constexpr std::string_view kReserved = "SHA256SUMS";
  std::string source_;
  bool local_http_;
};

std::string content_of(const std::string& file) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  std::string text = core::read_whole(file, kMostBytes);
  if (text.empty()) throw IoError(file + ": is empty; PRIVGRAD_DATASETS names it");
  return text;
}

}  // namespace

std::uint64_t KnownDataset::bytes() const {
  std::uint64_t sum = 0;
  for (const DatasetFile& file : files) sum += file.bytes;
  return sum;
}

std::vector<KnownDataset> datasets_from_json(std::string_view text, const std::string& source,
                                             bool local_http) {
  return Reader(source, local_http).datasets(text);
}

std::vector<KnownDataset> known_datasets() {
  const char* list = std::getenv("PRIVGRAD_DATASETS");
  if (list == nullptr || *list == '\0') return datasets_from_json(kBuiltIn, "data sets", false);
  return datasets_from_json(content_of(list), list, true);
}

const KnownDataset& find_dataset(const std::vector<KnownDataset>& datasets,
                                 const std::string& name) {
  std::vector<std::string> names;
  for (const KnownDataset& dataset : datasets) {
    if (dataset.name == name) return dataset;
    names.push_back(dataset.name);
  }
  throw ConfigError("no data set '" + name + "' can be fetched" + nearest_or_all(name, names));
}

}  // namespace privgrad::tool
