// SPDX-License-Identifier: MIT
// Programs for faults.py to judge: one that is right, and others with one mistake each, which it must see.
//
//     careless copy HOW FROM TO     copies a file
//     careless serve HOW            answers each request with one text
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

namespace {

std::string how;
std::string partial;  // the file that is being written

bool is(const char* mistake) { return how == mistake; }

[[noreturn]] void refuse(const char* what) {
  if (!is("silent")) dprintf(STDERR_FILENO, "draftproof: %s: %s\n", what, std::strerror(errno));
  if (!partial.empty() && !is("leftover")) unlink(partial.c_str());
  _exit(is("other_status") ? 1 : 3);
}

void* memory_of(std::size_t size) {
  void* const memory = std::malloc(size);
  if (memory == nullptr && !is("unchecked_memory")) refuse("memory");
  if (memory == nullptr) std::memset(memory, 1, size);
  return memory;
}

/// Reads `size` bytes, or to the end.
std::size_t read_all(int file, char* to, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = read(file, to + done, size - done);
    if (count < 0 && (errno == EINTR || is("endless"))) continue;
    if (count < 0) refuse("cannot be read");
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
    if (is("short_read")) break;
  }
  return done;
}

void write_all(int file, const char* from, std::size_t size) {
  while (size > 0) {
    const ssize_t count = write(file, from, size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && is("ignored_write")) return;
    if (count < 0) refuse("cannot be written");
    if (is("short_write")) return;
    from += count;
    size -= static_cast<std::size_t>(count);
  }
}

void sync(const char* path, int flags) {
  const int file = open(path, flags);
  if (file < 0 || fsync(file) != 0 || close(file) != 0) refuse("cannot be synced");
}

int copy(const char* from, const char* to) {
  const int source = open(from, O_RDONLY);
  if (source < 0) refuse(from);
  struct stat about {};
  if (fstat(source, &about) != 0) refuse(from);
  const auto size = static_cast<std::size_t>(about.st_size);
  auto* const bytes = static_cast<char*>(memory_of(size));
  const std::size_t count = read_all(source, bytes, size);
  if (count < size && !is("short_read")) refuse(from);
  close(source);
  partial = is("in_place") ? to : std::string(to) + ".partial-1-1";
  const int target = open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (target < 0) refuse(to);
  write_all(target, bytes, count);
  if (close(target) != 0) refuse(to);
  if (is("in_place")) partial.clear();
  if (!is("in_place")) {
    if (!is("no_sync")) sync(partial.c_str(), O_RDONLY);
    if (rename(partial.c_str(), to) != 0) refuse(to);
    partial.clear();
    if (!is("no_folder_sync")) sync(".", O_RDONLY | O_DIRECTORY);
  }
  std::free(bytes);
  return 0;
}

void answer(int client) {
  char head[4096];
  if (recv(client, head, sizeof head, 0) < 0) return;
  void* const memory = std::malloc(100);
  if (memory == nullptr && is("dies")) abort();
  if (memory == nullptr && is("stops")) pause();
  const bool failed = memory == nullptr && !is("answers_wrongly");
  std::free(memory);
  const char* const body = failed              ? R"({"error": {"message": "there is not enough memory"}})"
                           : memory == nullptr ? R"({"choices": [{"text": "a"}]})"
                                               : R"({"choices": [{"text": "a text"}]})";
  char whole[300];
  const int size =
      std::snprintf(whole, sizeof whole, "HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
                    failed ? "500 Error" : "200 OK", std::strlen(body), body);
  send(client, whole, static_cast<std::size_t>(size), MSG_NOSIGNAL);
}

int serve() {
  std::signal(SIGTERM, [](int) { _exit(0); });
  const int listening = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof place;
  if (bind(listening, reinterpret_cast<sockaddr*>(&place), size) != 0 || listen(listening, 8) != 0) refuse("no port");
  getsockname(listening, reinterpret_cast<sockaddr*>(&place), &size);
  dprintf(STDOUT_FILENO, "listening on http://127.0.0.1:%d\n", ntohs(place.sin_port));
  for (;;) {
    const int client = accept(listening, nullptr, nullptr);
    if (client < 0) continue;
    answer(client);
    close(client);
  }
}

}  // namespace

int main(int count, char** words) {
  if (count < 3) return 3;
  std::set_new_handler([] { refuse("memory"); });
  how = words[2];
  if (std::strcmp(words[1], "serve") == 0) return serve();
  return copy(words[3], words[4]);
}
