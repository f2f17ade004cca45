// A local HTTP server that can misbehave in any way, for tests of downloads.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

/// An HTTP server on this machine that behaves, or misbehaves, as a test demands. It answers one
/// request per connection, each on its own thread, and stops when the object is destroyed.
class HttpServer {
 public:
  struct Request {
    std::string path;
    std::string range;  ///< Value of the Range header; "" if there was none.
  };

  /// The connection to which a handler writes raw bytes, so that it can misbehave in any way.
  class Connection {
   public:
    Connection(int socket, const std::atomic<bool>& stop) : socket_(socket), stop_(stop) {}
    void send(const std::string& bytes) const {
      for (std::size_t done = 0; done < bytes.size() && !stop_;) {
        const ssize_t sent =
            ::send(socket_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
        if (sent <= 0) return;
        done += static_cast<std::size_t>(sent);
      }
    }
    /// Sends nothing until the client disconnects or the test ends.
    void stall() const {
      while (!stop_) {
        pollfd waiting{socket_, POLLIN, 0};
        if (::poll(&waiting, 1, 20) > 0) return;
      }
    }

   private:
    int socket_;
    const std::atomic<bool>& stop_;
  };

  using Handler = std::function<void(const Request&, const Connection&)>;

  explicit HttpServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_, generic, size) != 0 || ::listen(listener_, 64) != 0 ||
        ::getsockname(listener_, generic, &size) != 0) {
      throw std::runtime_error("no socket to serve on");
    }
    port_ = ntohs(address.sin_port);
    accepting_ = std::thread([this] { accept_all(); });
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer() {
    stop_ = true;
    accepting_.join();
    for (std::thread& thread : answering_) thread.join();
    ::close(listener_);
  }

  /// Returns "http://127.0.0.1:PORT/PATH".
  std::string address(const std::string& path = "") const {
    return "http://127.0.0.1:" + std::to_string(port_) + "/" + path;
  }
  std::vector<Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

  /// Sends the whole `body`, or the requested rest of it.
  static void answer(const Request& request, const Connection& to, const std::string& body) {
    const std::size_t begin = first_byte(request);
    if (begin == 0) return to.send(head("200 OK", body.size()) + body);
    if (begin >= body.size()) return to.send(head("416 Range Not Satisfiable", 0));
    to.send(head("206 Partial Content", body.size() - begin,
                 "Content-Range: bytes " + std::to_string(begin) + "-" +
                     std::to_string(body.size() - 1) + "/" + std::to_string(body.size()) + "\r\n") +
            body.substr(begin));
  }
  static std::string head(const std::string& status, std::size_t length,
                          const std::string& more = "") {
    return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(length) + "\r\n" + more +
           "Connection: close\r\n\r\n";
  }
  /// Returns the N of "bytes=N-"; 0 if there is no range.
  static std::size_t first_byte(const Request& request) {
    return request.range.empty() ? 0 : std::stoul(request.range.substr(6));
  }

 private:
  void accept_all() {
    while (!stop_) {
      pollfd waiting{listener_, POLLIN, 0};
      if (::poll(&waiting, 1, 20) <= 0) continue;
      const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (socket >= 0) answering_.emplace_back([this, socket] { serve(socket); });
    }
  }

  void serve(int socket) {
    std::string text;
    char buffer[4096];
    while (text.find("\r\n\r\n") == std::string::npos) {
      const ssize_t got = ::recv(socket, buffer, sizeof buffer, 0);
      if (got <= 0) break;
      text.append(buffer, static_cast<std::size_t>(got));
    }
    const Request request = parsed(text);
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    handler_(request, Connection(socket, stop_));
    ::shutdown(socket, SHUT_WR);
    ::close(socket);
  }

  static Request parsed(const std::string& text) {
    Request request;
    const std::size_t begin = text.find('/');
    request.path = text.substr(begin + 1, text.find(' ', begin) - begin - 1);
    const std::string header = "\r\nRange: ";
    if (const std::size_t at = text.find(header); at != text.npos) {
      const std::size_t from = at + header.size();
      request.range = text.substr(from, text.find("\r\n", from) - from);
    }
    return request;
  }

  Handler handler_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  std::vector<Request> requests_;
  std::vector<std::thread> answering_;
  std::thread accepting_;
};
