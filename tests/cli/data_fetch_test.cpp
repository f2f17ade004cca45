#include "data_fetch.hpp"

using namespace data_fetch;

TEST_CASE("data fetch brings the files, checked, and a manifest trains on them") {
  const Fetching f;
  const HttpServer server(f.good());
  f.offer({server.address()});
  const Outcome outcome = f.fetch();
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.starts_with("mnist: fetched to " + f.folder.string() + "\n"));
  CHECK(line_count(outcome.err) == 4);  // not a terminal: one plain line per file
  CHECK(outcome.err.find('\033') == std::string::npos);
  f.check_complete();

  write_file(f.cli.out("m.yaml"), std::string(Cli::kManifest));
  const Outcome plan =
      call(f.prepare({"plan", "m.yaml", "--set", "data={kind: dataset, name: mnist}", "--json"}));
  INFO(plan.err);
  REQUIRE(plan.exit_code == 0);
  CHECK(Json::parse(plan.out).at("parameters") == 20 * 20 * 10 + 10);
}

TEST_CASE("data fetch of what is here checks it and downloads nothing") {
  const Fetching f;
  const HttpServer server(f.good());
  f.offer({server.address()});
  REQUIRE(f.fetch({"--quiet"}).exit_code == 0);
  const std::size_t before = server.requests().size();
  const Outcome again = f.fetch({"--json"});
  CHECK(again.exit_code == 0);
  const Json json = Json::parse(again.out);
  CHECK(json.at("downloaded") == false);
  CHECK(json.at("folder") == f.folder.string());
  CHECK(json.at("files").size() == 4);
  CHECK(server.requests().size() == before);

  // One byte was changed since: the command notices and repairs it.
  std::string bytes = f.files.at(f.big);
  bytes.back() = static_cast<char>(bytes.back() + 1);
  write_file(f.folder / f.big, bytes);
  const Outcome mended = f.fetch();
  CHECK(mended.exit_code == 0);
  CHECK_THAT(mended.err, ContainsSubstring("has changed since it was fetched"));
  f.check_complete();
}

TEST_CASE("data fetch with -q says nothing on standard error") {
  const Fetching f;
  const HttpServer server(f.good());
  f.offer({server.address()});
  CHECK(f.fetch({"-q"}).err == "");
}

TEST_CASE("data fetch never keeps a file of other content") {
  const Fetching f;
  std::string corrupt = f.files.at(f.big);
  corrupt[1000] = static_cast<char>(corrupt[1000] ^ 1);
  const HttpServer server(f.good_but([&](const Request& request, const Connection& to) {
    HttpServer::answer(request, to, corrupt);
  }));
  f.offer({server.address()});
  const Outcome outcome = f.fetch({"-q"});
  check_one_error_line(outcome, 4);
  CHECK_THAT(outcome.err, ContainsSubstring("has other content: its SHA-256 is " + sha256(corrupt) +
                                            ", expected " + sha256(f.files.at(f.big))));
  f.check_incomplete();
  CHECK_FALSE(fs::exists(f.folder / (f.big + ".part")));
}

TEST_CASE("data fetch tries the addresses in order until one has the file") {
  const Fetching f;
  const HttpServer absent(
      [](const Request&, const Connection& to) { to.send(HttpServer::head("404 Not Found", 0)); });
  const HttpServer corrupt([&](const Request& request, const Connection& to) {
    HttpServer::answer(request, to, std::string(f.files.at(request.path).size(), 'x'));
  });
  const HttpServer good(f.good());
  f.offer({"http://127.0.0.1:1/", absent.address(), corrupt.address(), good.address()});
  const Outcome outcome = f.fetch();
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.err, ContainsSubstring("note: http://127.0.0.1:1/"));
  CHECK_THAT(outcome.err, ContainsSubstring("answered with status 404"));
  CHECK_THAT(outcome.err, ContainsSubstring("has other content"));
  f.check_complete();
}

TEST_CASE("data fetch names what each address did wrong when none has the file") {
  const Fetching f;
  const HttpServer absent(
      [](const Request&, const Connection& to) { to.send(HttpServer::head("404 Not Found", 0)); });
  f.offer({"http://127.0.0.1:1/", absent.address()});
  const Outcome outcome = f.fetch({"-q"});
  check_one_error_line(outcome, 4);
  CHECK_THAT(outcome.err, ContainsSubstring("http://127.0.0.1:1/t10k-images-idx3-ubyte "));
  CHECK_THAT(outcome.err, ContainsSubstring("status 404"));
}

TEST_CASE("data fetch asks for the rest of a file that breaks off") {
  const Fetching f;
  // Every answer ends after 60 kB, although it promises more.
  const HttpServer server(f.good_but([&](const Request& request, const Connection& to) {
    const std::string& body = f.files.at(f.big);
    const std::size_t begin = HttpServer::first_byte(request);
    const std::string range = "Content-Range: bytes " + std::to_string(begin) + "-" +
                              std::to_string(body.size() - 1) + "/" + std::to_string(body.size()) +
                              "\r\n";
    to.send(HttpServer::head(begin == 0 ? "200 OK" : "206 Partial Content", body.size() - begin,
                             begin == 0 ? "" : range) +
            body.substr(begin, 60000));
  }));
  f.offer({server.address()});
  CHECK(f.fetch().exit_code == 0);
  f.check_complete();
  CHECK(ranges(server, f.big) == std::vector<std::string>{"", "bytes=60000-", "bytes=120000-"});
}

TEST_CASE("data fetch goes on with a part from before, and only asks for the rest") {
  const Fetching f;
  const HttpServer server(f.good());
  f.offer({server.address()});
  f.leave_part(50000);
  CHECK(f.fetch().exit_code == 0);
  f.check_complete();
  CHECK(ranges(server, f.big) == std::vector<std::string>{"bytes=50000-"});
}

TEST_CASE("data fetch starts anew when the part from before does not fit") {
  const Fetching f;
  const HttpServer server(f.good());
  f.offer({server.address()});
  const std::size_t whole = f.files.at(f.big).size();
  SECTION("its bytes are others") { f.leave_part(50000, 1); }
  SECTION("all bytes are there, and one is wrong") { f.leave_part(whole, 1); }
  SECTION("it is longer than the file") {
    fs::create_directories(f.folder);
    write_file(f.folder / (f.big + ".part"), f.files.at(f.big) + "more");
  }
  CHECK(f.fetch().exit_code == 0);
  f.check_complete();
  CHECK(ranges(server, f.big).back().empty());
}

TEST_CASE("data fetch takes the whole file from a server that knows no ranges") {
  const Fetching f;
  const HttpServer server(f.good_but([&](const Request&, const Connection& to) {
    const std::string& body = f.files.at(f.big);
    to.send(HttpServer::head("200 OK", body.size()) + body);
  }));
  f.offer({server.address()});
  f.leave_part(50000, 1);  // if it were kept, the content would be wrong
  CHECK(f.fetch().exit_code == 0);
  f.check_complete();
  CHECK(ranges(server, f.big) == std::vector<std::string>{"bytes=50000-"});
}

TEST_CASE("data fetch does not join what does not fit together") {
  const Fetching f;
  // Answers a range request with another range, or some with 416.
  const bool refuses = GENERATE(false, true);
  const HttpServer server(f.good_but([&](const Request& request, const Connection& to) {
    if (request.range.empty()) return HttpServer::answer(request, to, f.files.at(f.big));
    if (refuses) return to.send(HttpServer::head("416 Range Not Satisfiable", 0));
    HttpServer::answer({request.path, "bytes=10-"}, to, f.files.at(f.big));
  }));
  f.offer({server.address()});
  f.leave_part(50000);
  CHECK(f.fetch().exit_code == 0);
  f.check_complete();
  CHECK(ranges(server, f.big) == std::vector<std::string>{"bytes=50000-", ""});
}

TEST_CASE("data fetch refuses a wrong length before it keeps a byte") {
  const Fetching f;
  const HttpServer server(f.good_but([&](const Request&, const Connection& to) {
    to.send(HttpServer::head("200 OK", 5) + "short");
  }));
  f.offer({server.address()});
  const Outcome outcome = f.fetch({"-q"});
  check_one_error_line(outcome, 4);
  CHECK_THAT(outcome.err, ContainsSubstring("has a file of 5 bytes, expected 160016"));
  f.check_incomplete();
}

TEST_CASE("data fetch stops reading a server that sends without end") {
  const Fetching f;
  const HttpServer server(f.good_but([&](const Request&, const Connection& to) {
    to.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");  // no length
    for (int i = 0; i < 1000; ++i) to.send(std::string(10000, 'x'));
  }));
  f.offer({server.address()});
  const Outcome outcome = f.fetch({"-q"});
  check_one_error_line(outcome, 4);
  CHECK_THAT(outcome.err, ContainsSubstring("sends more than the expected 160016 bytes"));
  std::error_code absent;
  const auto kept = fs::file_size(f.folder / (f.big + ".part"), absent);
  CHECK((absent || kept <= 160016));
  f.check_incomplete();
}

TEST_CASE("data fetch gives a silent server up, and a later fetch goes on from there") {
  const Fetching f;
  std::atomic<bool> mute{true};
  const HttpServer server(f.good_but([&](const Request& request, const Connection& to) {
    const std::string& body = f.files.at(f.big);
    if (!mute) return HttpServer::answer(request, to, body);
    if (!request.range.empty()) return to.stall();
    to.send(HttpServer::head("200 OK", body.size()) + body.substr(0, 70000));
    to.stall();
  }));
  f.offer({server.address()});
  const Outcome outcome = f.fetch({"-q", "--timeout", "1"});
  check_one_error_line(outcome, 4);
  CHECK_THAT(outcome.err,
             ContainsSubstring("sent nothing for 1 s (70000 of 160016 bytes are here)"));
  f.check_incomplete();
  CHECK(fs::file_size(f.folder / (f.big + ".part")) == 70000);
  mute = false;
  CHECK(f.fetch().exit_code == 0);
  f.check_complete();
  CHECK(ranges(server, f.big).back() == "bytes=70000-");
}

TEST_CASE("data fetch follows a redirect, and no loop of them") {
  const Fetching f;
  const HttpServer server([&](const Request& request, const Connection& to) {
    const std::string there =
        request.path.starts_with("loop/") ? request.path : "moved/" + request.path;
    if (!request.path.starts_with("moved/")) {
      return to.send(HttpServer::head("302 Found", 0, "Location: /" + there + "\r\n"));
    }
    HttpServer::answer(request, to, f.files.at(request.path.substr(6)));
  });
  f.offer({server.address()});
  CHECK(f.fetch().exit_code == 0);
  f.check_complete();

  fs::remove_all(f.folder);
  f.offer({server.address("loop/")});
  const std::size_t before = server.requests().size();
  const Outcome outcome = f.fetch({"-q"});
  check_one_error_line(outcome, 4);
  CHECK_THAT(outcome.err, ContainsSubstring("redirects"));
  CHECK(server.requests().size() - before <= 6);
}

TEST_CASE("data fetch does not follow a redirect to another protocol") {
  const Fetching f;
  write_file(f.cli.out("secret"), "secret");
  const HttpServer server([&](const Request&, const Connection& to) {
    to.send(HttpServer::head("302 Found", 0,
                             "Location: file://" + f.cli.out("secret").string() + "\r\n"));
  });
  f.offer({server.address()});
  const Outcome outcome = f.fetch({"-q"});
  check_one_error_line(outcome, 4);
  CHECK_THAT(outcome.err, ContainsSubstring("rotocol"));
}

TEST_CASE("two fetches at a time wait for each other, and download once") {
  const Fetching f;
  std::atomic<bool> go{false};
  const HttpServer server([&, good = f.good()](const Request& request, const Connection& to) {
    Process::wait_for([&] { return go.load(); });
    good(request, to);
  });
  f.offer({server.address()});
  Process first(f.fetching());
  REQUIRE(Process::wait_for([&] { return !server.requests().empty(); }));
  Process second(f.fetching());
  Process third(f.fetching());
  for (Process* other : {&second, &third})
    REQUIRE(other->says("another fetch of mnist is at work; waiting for it"));
  CHECK(server.requests().size() == 1);
  go = true;
  CHECK(first.finish().exit_code == 0);
  for (Process* other : {&second, &third}) {
    const Outcome outcome = other->finish();
    CHECK(outcome.exit_code == 0);
    CHECK_THAT(outcome.err, ContainsSubstring("another fetch of mnist is at work; waiting for it"));
    CHECK_THAT(outcome.out, ContainsSubstring("is here, unchanged"));
  }
  f.check_complete();
  CHECK(server.requests().size() == 4);
}

TEST_CASE("Ctrl-C keeps the part, and the next fetch goes on from there") {
  const Fetching f;
  std::atomic<bool> mute{true};
  const HttpServer server(f.good_but([&](const Request& request, const Connection& to) {
    const std::string& body = f.files.at(f.big);
    if (!mute) return HttpServer::answer(request, to, body);
    to.send(HttpServer::head("200 OK", body.size()) + body.substr(0, 70000));
    to.stall();
  }));
  f.offer({server.address()});
  const int signal = GENERATE(SIGINT, SIGTERM);
  Process process(f.fetching());
  const fs::path part = f.folder / (f.big + ".part");
  REQUIRE(Process::wait_for([&] {
    std::error_code absent;
    return fs::file_size(part, absent) == 70000 && !absent;
  }));
  process.send(signal);
  const Outcome outcome = process.finish();
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.signal == 0);
  CHECK_THAT(outcome.err,
             ContainsSubstring("privgrad: error: interrupted; what has arrived is kept"));
  f.check_incomplete();
  CHECK(fs::file_size(part) == 70000);

  // Training reports this instead of using half of the data.
  const Outcome plan =
      call(f.prepare({"plan", "small.yaml", "--set", "data={kind: dataset, name: mnist}"}));
  CHECK(plan.exit_code == 4);
  CHECK_THAT(plan.err, ContainsSubstring("privgrad data fetch mnist"));

  mute = false;
  CHECK(f.fetch().exit_code == 0);
  f.check_complete();
  CHECK(ranges(server, f.big).back() == "bytes=70000-");
}

TEST_CASE("a disk that is full is exit code 4, and leaves no file under its name") {
  const Fetching f;
  const HttpServer server(f.good());
  f.offer({server.address()});
  Call full = f.fetching({"-q"});
  full.file_size = 100000;
  const Outcome outcome = call(full);
  check_one_error_line(outcome, 4);
  CHECK_THAT(outcome.err, ContainsSubstring(f.big + ".part: cannot be written"));
  f.check_incomplete();
  CHECK(f.fetch().exit_code == 0);
  f.check_complete();
}

TEST_CASE("a cache that cannot be made is exit code 4") {
  const Fetching f;
  f.offer({"http://127.0.0.1:1/"});
  Call call_there = f.fetching({"-q"});
  call_there.environment["PRIVGRAD_CACHE_DIR"] = "/proc/privgrad";
  check_one_error_line(call(call_there), 4);
}

TEST_CASE("only https is fetched from, but for this machine in a list of one's own") {
  const Fetching f;
  for (const char* mirror : {"http://example.org/", "ftp://127.0.0.1:1/", "file:///etc/",
                             "http://127.0.0.1.example.org/", "http://localhost.example.org:1/"}) {
    f.offer({mirror});
    const Outcome outcome = f.fetch();
    check_one_error_line(outcome, 2);
    CHECK_THAT(outcome.err, ContainsSubstring("is not an https address"));
  }
}

TEST_CASE("a list of data sets that is broken is one error line") {
  const Fetching f;
  f.offer({"https://example.org/"});
  const Json good = Json::parse(read_file(f.cli.out("list.json")));
  std::vector<std::string> broken{"", "{", "[1]", "{}", "[{}]"};
  const auto with = [&](const char* pointer, const Json& value) {
    Json changed = good;
    changed[Json::json_pointer(pointer)] = value;
    broken.push_back(changed.dump());
  };
  with("/0/name", "../mnist");
  with("/0/name", "");
  with("/0/name", 3);
  with("/0/files/0/name", "a/b");
  with("/0/files/0/name", "SHA256SUMS");
  with("/0/files/0/sha256", "abc");
  with("/0/files/0/bytes", -1.5e300);
  with("/0/files", Json::array());
  with("/0/mirrors", Json::array());
  with("/0/unpack", "zip");
  with("/1", good[0]);
  for (const std::string& text : broken) {
    write_file(f.cli.out("list.json"), text);
    const Outcome outcome = f.fetch();
    INFO(text);
    CHECK((outcome.exit_code == 2 || outcome.exit_code == 4));
    CHECK(line_count(outcome.err) == 1);
    CHECK_FALSE(fs::exists(f.cache));
  }
}

TEST_CASE("wrong calls of data fetch get one line and exit code 2") {
  const Cli cli;
  const std::pair<Words, std::string> calls[] = {
      {{"data"}, "needs one of list, fetch, describe"},
      {{"data", "fetch"}, "DATASET is missing"},
      {{"data", "fetch", "mnits"}, "did you mean 'mnist'?"},
      {{"data", "fetch", "imagenet"}, "there are mnist, fashion-mnist, cifar10"},
      {{"data", "fetch", "mnist", "--timeout", "0"}, "--timeout is '0'"},
      {{"data", "fetch", "mnist", "--timeout=x"}, "--timeout is 'x'"}};
  for (const auto& [words, expected] : calls) {
    const Outcome outcome = cli(words);
    check_one_error_line(outcome, 2);
    CHECK_THAT(outcome.err, ContainsSubstring(expected));
  }
}

TEST_CASE("on a terminal data fetch draws a bar in place and takes it away") {
  const Fetching f;
  std::atomic<bool> go{false};
  const HttpServer server(f.good_but([&](const Request&, const Connection& to) {
    const std::string& body = f.files.at(f.big);
    to.send(HttpServer::head("200 OK", body.size()) + body.substr(0, 80008));
    Process::wait_for([&] { return go.load(); });
    to.send(body.substr(80008));
  }));
  f.offer({server.address()});
  Call call_there = f.fetching();
  call_there.terminal = true;
  Process process(call_there);
  CHECK(process.says("80.0 kB of 160 kB"));
  go = true;
  const Outcome outcome = process.finish();
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(
      outcome.err,
      ContainsSubstring("\r" + f.big + "  [############............]  50 %  80.0 kB of 160 kB"));
  CHECK(outcome.err.ends_with("\r\033[K"));
  CHECK(line_count(outcome.err) == 0);

  fs::remove_all(f.folder);
  call_there.environment["TERM"] = "dumb";
  const Outcome dumb = call(call_there);
  CHECK(dumb.exit_code == 0);
  CHECK(dumb.err.find('\033') == std::string::npos);
  CHECK_THAT(dumb.err, ContainsSubstring(f.big + "  160 kB\r\n"));
}
