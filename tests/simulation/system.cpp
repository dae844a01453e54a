// SPDX-License-Identifier: MIT
#include "tests/simulation/system.h"

#include <dlfcn.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <utility>

namespace draftproof::simulation {
namespace {

using namespace std::chrono_literals;

constexpr int first_file = 1 << 24;                       // no number of a real one
constexpr std::size_t pipe_bytes = std::size_t{1} << 13;  // on their way in one direction
constexpr std::time_t start_of_clocks = 1'800'000'000;

bool there_is_one = false;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "simulation: %s\n", what);
  std::abort();
}

/// The C library's function of this name.
template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
#define REAL(name) real<decltype(::name)>(#name)

/// Passes a turn from one real thread to another. (std::binary_semaphore asks for sched_yield(), which is simulated.)
class Turn {
 public:
  Turn() { sem_init(&semaphore_, 0, 0); }
  ~Turn() { sem_destroy(&semaphore_); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  void give() { sem_post(&semaphore_); }
  void take() {
    while (sem_wait(&semaphore_) != 0) {
    }
  }
  /// Returns whether it came within so many seconds. Not of a simulated thread.
  bool take_within(std::time_t seconds) {
    timespec until{};
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += seconds;
    int failed = 0;
    do {
      failed = sem_timedwait(&semaphore_, &until);
    } while (failed != 0 && errno == EINTR);
    return failed == 0;
  }

 private:
  sem_t semaphore_;
};

}  // namespace

struct System::Connection {
  std::string to_server;
  std::string to_client;
  int number = 0;
  bool client_ended = false;  // the client sends no more
  bool client_gone = false;   // and reads no more
  bool server_ended = false;
  bool server_gone = false;
  bool server_reads_no_more = false;
  bool reset_by_client = false;  // it went before it had read everything
  bool reset_by_server = false;

  bool hears_nothing() const { return client_ended || client_gone || server_reads_no_more; }
};

struct System::File {
  enum class Kind { socket, event, connection };
  Kind kind = Kind::socket;
  bool listens = false;
  std::deque<Client> arrived;
  std::uint64_t count = 0;  // of an event
  Client connection;

  short events() const {
    if (kind == Kind::event) return static_cast<short>(POLLOUT | (count > 0 ? POLLIN : 0));
    if (kind == Kind::socket) return arrived.empty() ? 0 : POLLIN;
    const Connection& c = *connection;
    int found = 0;
    if (!c.to_server.empty() || c.hears_nothing() || c.reset_by_client) found |= POLLIN;
    if (c.to_client.size() < pipe_bytes || c.reset_by_client || c.server_ended) found |= POLLOUT;
    if (c.hears_nothing() || c.reset_by_client) found |= POLLRDHUP;
    if (c.reset_by_client) found |= POLLERR | POLLHUP;
    if (c.hears_nothing() && c.server_ended) found |= POLLHUP;
    return static_cast<short>(found);
  }
};

struct System::Thread {
  enum class State { ready, waiting, ended };
  System* system = nullptr;
  int number = 0;
  State state = State::ready;
  const void* on = nullptr;              // a mutex, a condition or a thread
  std::vector<pollfd>* files = nullptr;  // any of which may wake it
  std::optional<Duration> until;         // it waits no longer
  bool woken = false;                    // by what it waits for
  std::function<void()> function;
  pthread_t handle{};
  bool detached = false;  // nobody joins it
  Turn turn;
  Turn done;  // with its turn
};

/// What simulated threads call.
class System::Calls {
 public:
  static thread_local Thread* self;

  static System& system() { return *self->system; }

  /// Gives the turn back, and returns when the thread has it again.
  static void give_turn() {
    Thread& me = *self;
    me.done.give();
    me.turn.take();
  }
  static void note(std::uint64_t what) {
    system().history_.push_back(what << 32 | static_cast<std::uint64_t>(self->number));
  }
  /// A call begins; others may have their turn before it.
  static void enter(int what) {
    note(static_cast<std::uint64_t>(what));
    if (system().some(4) == 0) give_turn();
  }
  /// Returns whether what it waits for has come; else time is up.
  static bool wait(const void* on, std::vector<pollfd>* files, std::optional<Duration> until) {
    Thread& me = *self;
    me.on = on;
    me.files = files;
    me.until = until;
    me.woken = false;
    me.state = Thread::State::waiting;
    give_turn();
    me.state = Thread::State::ready;
    me.on = nullptr;
    me.files = nullptr;
    me.until.reset();
    return me.woken;
  }
  static void wake_all(const void* on) {
    for (const auto& thread : system().threads_) {
      if (thread->state == Thread::State::waiting && thread->on == on) thread->woken = true;
    }
  }
  static void wake_one(const void* on) {
    std::vector<Thread*> found;
    for (const auto& thread : system().threads_) {
      if (thread->state == Thread::State::waiting && thread->on == on && !thread->woken) found.push_back(thread.get());
    }
    if (!found.empty()) found[system().some(found.size())]->woken = true;
  }

  // Threads.

  static int create(pthread_t* handle, std::function<void()> function) {
    enter(1);
    if (system().thread_failures_ > 0 && system().some(static_cast<std::uint64_t>(system().thread_failures_)) == 0) {
      return EAGAIN;
    }
    *handle = system().add_thread(std::move(function)).handle;
    return 0;
  }
  static Thread& thread_of(pthread_t handle) {
    for (const auto& thread : system().threads_) {
      if (!thread->detached && pthread_equal(thread->handle, handle) != 0) return *thread;
    }
    fail("a thread is joined or detached that is none");
  }
  static int join(pthread_t handle) {
    enter(2);
    Thread& thread = thread_of(handle);
    while (thread.state != Thread::State::ended) wait(&thread, nullptr, {});
    system().forget(thread);
    return 0;
  }
  static int detach(pthread_t handle) {
    Thread& thread = thread_of(handle);
    thread.detached = true;
    if (thread.state == Thread::State::ended) system().forget(thread);
    return 0;
  }

  // Mutexes and conditions. The real mutex says who has it; the real condition is not used.

  static void lock_again(pthread_mutex_t* mutex) {
    static auto* const try_lock = REAL(pthread_mutex_trylock);
    while (try_lock(mutex) == EBUSY) wait(mutex, nullptr, {});
  }
  static void unlock_quietly(pthread_mutex_t* mutex) {
    static auto* const unlock = REAL(pthread_mutex_unlock);
    unlock(mutex);
    wake_all(mutex);
  }
  static int lock(pthread_mutex_t* mutex) {
    enter(3);
    lock_again(mutex);
    return 0;
  }
  static int unlock(pthread_mutex_t* mutex) {
    unlock_quietly(mutex);
    enter(4);
    return 0;
  }
  static int wait_for(pthread_cond_t* condition, pthread_mutex_t* mutex, std::optional<Duration> until) {
    note(5);
    unlock_quietly(mutex);
    bool woken = true;
    if (system().some(32) == 0) give_turn();  // wakes without a reason, as conditions may
    else woken = wait(condition, nullptr, until);
    lock_again(mutex);
    return woken ? 0 : ETIMEDOUT;
  }
  static int signal(pthread_cond_t* condition, bool all) {
    note(6);
    if (system().mistake_ == Mistake::loses_signals && system().some(50) == 0) return 0;
    all ? wake_all(condition) : wake_one(condition);
    if (system().some(4) == 0) give_turn();
    return 0;
  }

  // Time.

  static timespec time_of(Duration duration) {
    const Duration all = duration + std::chrono::seconds(start_of_clocks);
    return {static_cast<std::time_t>(all / 1s), static_cast<long>((all % std::chrono::seconds(1)).count())};
  }
  static Duration duration_of(const timespec& time) {
    return std::chrono::seconds(time.tv_sec - start_of_clocks) + Duration(time.tv_nsec);
  }
  static int read_clock(timespec* time) {
    system().now_ += 100ns;  // so that nobody waits in vain for time to go on
    *time = time_of(system().now_);
    return 0;
  }
  static int sleep(Duration duration) {
    note(7);
    wait(nullptr, nullptr, system().now_ + duration);
    return 0;
  }
  static int yield() {
    note(8);
    give_turn();
    return 0;
  }

  // Files.

  static int fail_with(int why) {
    errno = why;
    return -1;
  }
  static bool is_file(int number) { return number >= first_file; }
  static File* find(int number) {
    for (const auto& [of, file] : system().files_) {
      if (of == number) return file.get();
    }
    return nullptr;
  }
  static File& file(int number) {
    File* const found = find(number);
    if (found == nullptr) fail("a call for a file that is not open");
    return *found;
  }
  static int add(File::Kind kind, Client connection = nullptr) {
    system().files_.emplace_back(first_file + system().opened_++, std::make_unique<File>());
    system().files_.back().second->kind = kind;
    system().files_.back().second->connection = std::move(connection);
    return system().files_.back().first;
  }
  static int add_socket() { return add(File::Kind::socket); }
  static int add_event() { return add(File::Kind::event); }
  static bool no_file_left() {
    const auto one_in = static_cast<std::uint64_t>(system().file_failures_);
    return one_in > 0 && system().some(one_in) == 0;
  }
  static int listen(int number) {
    file(number).listens = true;
    return 0;
  }
  static int accept(int number) {
    enter(9);
    File& listening = file(number);
    if (listening.arrived.empty()) return fail_with(EAGAIN);
    if (no_file_left()) return fail_with(EMFILE);
    const Client client = listening.arrived.front();
    listening.arrived.pop_front();
    return add(File::Kind::connection, client);
  }
  static int name_of(int number, sockaddr* address, socklen_t* size, bool of_client) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const Client& client = file(number).connection;
    const bool is_client = of_client && client != nullptr;
    name.sin_port = htons(static_cast<std::uint16_t>(is_client ? 20000 + client->number % 40000 : 8080));
    std::memcpy(address, &name, std::min<std::size_t>(*size, sizeof(name)));
    *size = sizeof(name);
    return 0;
  }
  static int poll(pollfd* files, nfds_t count, int timeout) {
    enter(10);
    std::vector<pollfd> asked(files, files + count);
    const Duration until = system().now_ + std::chrono::milliseconds(std::max(timeout, 0));
    while (true) {
      int found = 0;
      for (pollfd& one : asked) {
        const int events = one.events | POLLERR | POLLHUP;
        one.revents = one.fd < 0 ? short{0} : static_cast<short>(file(one.fd).events() & events);
        found += one.revents != 0 ? 1 : 0;
      }
      if (found == 0 && timeout != 0 && (timeout < 0 || system().now_ < until)) {
        if (system().some(64) == 0) return fail_with(EINTR);
        wait(nullptr, &asked, timeout < 0 ? std::nullopt : std::optional(until));
        continue;
      }
      std::ranges::copy(asked, files);
      return found;
    }
  }
  static ssize_t receive(int number, void* to, std::size_t size) {
    enter(11);
    Connection& c = *file(number).connection;
    if (c.reset_by_client) return fail_with(ECONNRESET);
    if (c.to_server.empty()) return c.hears_nothing() ? 0 : fail_with(EAGAIN);
    const std::size_t taken = std::min({size, c.to_server.size(), std::size_t{1} + system().some(pipe_bytes)});
    std::memcpy(to, c.to_server.data(), taken);
    c.to_server.erase(0, taken);
    return static_cast<ssize_t>(taken);
  }
  static ssize_t send(int number, const void* from, std::size_t size) {
    enter(12);
    Connection& c = *file(number).connection;
    if (c.reset_by_client || c.client_gone || c.server_ended) return fail_with(EPIPE);
    const std::size_t room = pipe_bytes - std::min(pipe_bytes, c.to_client.size());
    if (room == 0 || size == 0) return room == 0 ? fail_with(EAGAIN) : 0;
    std::size_t taken = std::min(size, room);
    if (system().some(4) == 0) taken = 1 + system().some(taken);
    std::string bytes(static_cast<const char*>(from), taken);
    if (system().mistake_ == Mistake::loses_bytes && system().some(100) == 0) bytes.pop_back();
    if (system().mistake_ == Mistake::alters_bytes && system().some(100) == 0) bytes.front() ^= 1;
    c.to_client += bytes;
    return static_cast<ssize_t>(taken);
  }
  static int shut_down(int number, int how) {
    enter(13);
    Connection& c = *file(number).connection;
    c.server_ended = c.server_ended || how != SHUT_RD;
    c.server_reads_no_more = c.server_reads_no_more || how != SHUT_WR;
    return 0;
  }
  static int close(int number) {
    note(14);
    File& closed = file(number);
    for (const Client& client : closed.arrived) client->reset_by_server = true;
    if (closed.connection != nullptr) {
      Connection& c = *closed.connection;
      c.server_gone = true;
      c.reset_by_server = !c.to_server.empty() && !c.client_gone;
    }
    if (system().mistake_ == Mistake::leaves_files_open) return 0;
    std::erase_if(system().files_, [&](const auto& one) { return one.first == number; });
    return 0;
  }
  static ssize_t read_event(int number, void* to, std::size_t size) {
    enter(15);
    File& event = file(number);
    if (event.kind != File::Kind::event || size != sizeof(event.count)) fail("a file is read that is no event");
    if (event.count == 0) return fail_with(EAGAIN);
    std::memcpy(to, &event.count, size);
    event.count = 0;
    return static_cast<ssize_t>(size);
  }
  static ssize_t write_event(int number, const void* from, std::size_t size) {
    enter(16);
    File& event = file(number);
    if (event.kind != File::Kind::event || size != sizeof(event.count)) fail("a file is written that is no event");
    std::uint64_t more = 0;
    std::memcpy(&more, from, size);
    event.count += more;
    return static_cast<ssize_t>(size);
  }
};

thread_local System::Thread* System::Calls::self = nullptr;

System::System(std::uint64_t seed, Mistake mistake) : random_(seed), mistake_(mistake) {
  if (std::exchange(there_is_one, true)) fail("there is a system already");
}

System::~System() {
  if (threads() > 0) fail("a thread has not ended");
  there_is_one = false;
}

void System::set_failures(int of_threads, int of_files) {
  thread_failures_ = of_threads;
  file_failures_ = of_files;
}

void System::spawn(std::function<void()> function) { add_thread(std::move(function)).detached = true; }

System::Thread& System::add_thread(std::function<void()> function) {
  Thread& added = *threads_.emplace_back(std::make_unique<Thread>());
  added.system = this;
  added.number = started_++;
  added.function = std::move(function);
  const auto begin = [](void* thread) -> void* {
    Thread& me = *static_cast<Thread*>(thread);
    me.turn.take();
    Calls::self = &me;
    me.function();
    me.function = nullptr;
    Calls::wake_all(&me);
    Calls::self = nullptr;
    me.state = Thread::State::ended;
    me.done.give();
    return nullptr;
  };
  static auto* const create = REAL(pthread_create);
  if (create(&added.handle, nullptr, begin, &added) != 0) fail("the real system has no thread");
  return added;
}

bool System::can_go_on(const Thread& thread) const {
  if (thread.state != Thread::State::waiting) return thread.state == Thread::State::ready;
  if (thread.woken || (thread.until && now_ >= *thread.until)) return true;
  return thread.files != nullptr && std::ranges::any_of(*thread.files, [&](const pollfd& asked) {
           const auto found = std::ranges::find(files_, asked.fd, [](const auto& one) { return one.first; });
           return found != files_.end() && (found->second->events() & (asked.events | POLLERR | POLLHUP)) != 0;
         });
}

bool System::step() {
  std::vector<Thread*> able;
  for (const auto& thread : threads_) {
    if (can_go_on(*thread)) able.push_back(thread.get());
  }
  if (able.empty()) return false;
  run(*able[some(able.size())]);
  return true;
}

void System::run(Thread& thread) {
  thread.turn.give();
  if (!thread.done.take_within(120)) fail("a thread does not give its turn back: it waits for something real");
  if (thread.state == Thread::State::ended && thread.detached) forget(thread);
}

void System::forget(Thread& thread) {
  static auto* const join = REAL(pthread_join);
  join(thread.handle, nullptr);
  std::erase_if(threads_, [&](const auto& one) { return one.get() == &thread; });
}

std::optional<System::Duration> System::next() const {
  std::optional<Duration> next;
  for (const auto& thread : threads_) {
    if (thread->state != Thread::State::waiting || !thread->until) continue;
    next = next ? std::min(*next, *thread->until) : *thread->until;
  }
  return next ? std::optional(std::max(now_, *next)) : std::nullopt;
}

std::size_t System::threads() const noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(threads_, [](const auto& one) { return one->state != Thread::State::ended; }));
}

System::Client System::connect() {
  for (const auto& [number, file] : files_) {
    if (!file->listens) continue;
    const auto client = std::make_shared<Connection>();
    client->number = opened_++;
    file->arrived.push_back(client);
    return client;
  }
  return nullptr;
}

std::size_t System::send(Connection& client, std::string_view bytes) {
  if (client.server_gone || client.reset_by_server) return 0;
  const std::size_t sent = std::min(bytes.size(), pipe_bytes - std::min(pipe_bytes, client.to_server.size()));
  client.to_server += bytes.substr(0, sent);
  return sent;
}

std::string System::receive(Connection& client, std::size_t size) {
  if (client.reset_by_server) client.to_client.clear();
  std::string taken = client.to_client.substr(0, size);
  client.to_client.erase(0, taken.size());
  return taken;
}

bool System::ended(const Connection& client) {
  return client.reset_by_server || (client.to_client.empty() && (client.server_ended || client.server_gone));
}

bool System::was_reset(const Connection& client) { return client.reset_by_server; }
void System::end_writing(Connection& client) { client.client_ended = true; }
void System::close(Connection& client) {
  client.reset_by_client = !client.to_client.empty();
  client.client_ended = client.client_gone = true;
  client.to_client.clear();
}

}  // namespace draftproof::simulation

#ifndef DRAFTPROOF_SANITIZED
// The C library's functions, for all of the program.

using Calls = draftproof::simulation::System::Calls;
using draftproof::simulation::real;

extern "C" {

int pthread_create(pthread_t* handle, const pthread_attr_t* attributes, void* (*begin)(void*), void* argument) {
  if (Calls::self != nullptr) return Calls::create(handle, [begin, argument] { begin(argument); });
  static auto* const here = REAL(pthread_create);
  return here(handle, attributes, begin, argument);
}
int pthread_join(pthread_t handle, void** result) {
  if (Calls::self != nullptr) return Calls::join(handle);
  static auto* const here = REAL(pthread_join);
  return here(handle, result);
}
int pthread_detach(pthread_t handle) noexcept {
  if (Calls::self != nullptr) return Calls::detach(handle);
  static auto* const here = REAL(pthread_detach);
  return here(handle);
}
int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  if (Calls::self != nullptr) return Calls::lock(mutex);
  static auto* const here = REAL(pthread_mutex_lock);
  return here(mutex);
}
int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  if (Calls::self != nullptr) return Calls::unlock(mutex);
  static auto* const here = REAL(pthread_mutex_unlock);
  return here(mutex);
}
int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  if (Calls::self != nullptr) return Calls::wait_for(condition, mutex, {});
  static auto* const here = REAL(pthread_cond_wait);
  return here(condition, mutex);
}
int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  if (Calls::self != nullptr) return Calls::wait_for(condition, mutex, Calls::duration_of(*until));
  static auto* const here = REAL(pthread_cond_timedwait);
  return here(condition, mutex, until);
}
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  if (Calls::self != nullptr) return Calls::wait_for(condition, mutex, Calls::duration_of(*until));
  static auto* const here = REAL(pthread_cond_clockwait);
  return here(condition, mutex, clock, until);
}
int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  if (Calls::self != nullptr) return Calls::signal(condition, false);
  static auto* const here = REAL(pthread_cond_signal);
  return here(condition);
}
int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  if (Calls::self != nullptr) return Calls::signal(condition, true);
  static auto* const here = REAL(pthread_cond_broadcast);
  return here(condition);
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (Calls::self != nullptr) return Calls::read_clock(time);
  static auto* const here = REAL(clock_gettime);
  return here(clock, time);
}
int nanosleep(const timespec* length, timespec* left) {
  if (Calls::self != nullptr) {
    return Calls::sleep(std::chrono::seconds(length->tv_sec) + std::chrono::nanoseconds(length->tv_nsec));
  }
  static auto* const here = REAL(nanosleep);
  return here(length, left);
}
int sched_yield() noexcept {
  if (Calls::self != nullptr) return Calls::yield();
  static auto* const here = REAL(sched_yield);
  return here();
}

int socket(int domain, int type, int protocol) noexcept {
  if (Calls::self != nullptr) return Calls::add_socket();
  static auto* const here = REAL(socket);
  return here(domain, type, protocol);
}
int eventfd(unsigned count, int flags) noexcept {
  if (Calls::self != nullptr) return Calls::add_event();
  static auto* const here = REAL(eventfd);
  return here(count, flags);
}
int setsockopt(int file, int level, int option, const void* value, socklen_t size) noexcept {
  if (Calls::is_file(file)) return 0;
  static auto* const here = REAL(setsockopt);
  return here(file, level, option, value, size);
}
int bind(int file, const sockaddr* address, socklen_t size) noexcept {
  if (Calls::is_file(file)) return 0;
  static auto* const here = REAL(bind);
  return here(file, address, size);
}
int listen(int file, int count) noexcept {
  if (Calls::is_file(file)) return Calls::listen(file);
  static auto* const here = REAL(listen);
  return here(file, count);
}
int accept4(int file, sockaddr* address, socklen_t* size, int flags) {
  if (Calls::is_file(file)) return Calls::accept(file);
  static auto* const here = REAL(accept4);
  return here(file, address, size, flags);
}
int getsockname(int file, sockaddr* address, socklen_t* size) noexcept {
  if (Calls::is_file(file)) return Calls::name_of(file, address, size, false);
  static auto* const here = REAL(getsockname);
  return here(file, address, size);
}
int getpeername(int file, sockaddr* address, socklen_t* size) noexcept {
  if (Calls::is_file(file)) return Calls::name_of(file, address, size, true);
  static auto* const here = REAL(getpeername);
  return here(file, address, size);
}
int poll(pollfd* files, nfds_t count, int timeout) {
  if (Calls::self != nullptr) return Calls::poll(files, count, timeout);
  static auto* const here = REAL(poll);
  return here(files, count, timeout);
}
ssize_t recv(int file, void* to, std::size_t size, int flags) {
  if (Calls::is_file(file)) return Calls::receive(file, to, size);
  static auto* const here = REAL(recv);
  return here(file, to, size, flags);
}
ssize_t send(int file, const void* from, std::size_t size, int flags) {
  if (Calls::is_file(file)) return Calls::send(file, from, size);
  static auto* const here = REAL(send);
  return here(file, from, size, flags);
}
int shutdown(int file, int how) noexcept {
  if (Calls::is_file(file)) return Calls::shut_down(file, how);
  static auto* const here = REAL(shutdown);
  return here(file, how);
}
int close(int file) {
  if (Calls::is_file(file)) return Calls::close(file);
  static auto* const here = REAL(close);
  return here(file);
}
ssize_t read(int file, void* to, std::size_t size) {
  if (Calls::is_file(file)) return Calls::read_event(file, to, size);
  static auto* const here = REAL(read);
  return here(file, to, size);
}
ssize_t write(int file, const void* from, std::size_t size) {
  if (Calls::is_file(file)) return Calls::write_event(file, from, size);
  static auto* const here = REAL(write);
  return here(file, from, size);
}

}  // extern "C"
#endif
