package org.ep4j.rdma.softverbs;

import static org.ep4j.rdma.verbs.bindings.VerbsConstants.*;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.ep4j.rdma.verbs.bindings.Verbs;
import org.ep4j.rdma.verbs.bindings.VerbsLayouts;
import org.ep4j.rdma.verbs.bindings.VerbsQueues;

/** One queue pair on a port with one registered memory and one completion queue. */
final class DeviceEnd implements AutoCloseable {
  static final long BYTES = 1 << 20;
  static final int READ_AND_WRITE = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  static final int DEPTH = 64;

  static final int IBV_ACCESS_REMOTE_READ = 4;
  static final int IBV_ACCESS_REMOTE_ATOMIC = 8;
  static final int EVERYTHING = READ_AND_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  static final int IBV_WC_RDMA_READ = 2;
  static final int IBV_WC_COMP_SWAP = 3;
  static final int IBV_WC_FETCH_ADD = 4;

  private static final int IBV_WR_RDMA_READ = 4;
  private static final int IBV_WR_ATOMIC_CMP_AND_SWP = 5;
  private static final int IBV_WR_ATOMIC_FETCH_AND_ADD = 6;

  // wr.atomic of ibv_send_wr, srq of ibv_qp_init_attr
  private static final long COMPARE_OR_ADD = 48;
  private static final long SWAP = 56;
  private static final long ATOMIC_KEY = 64;
  private static final long SHARED_RECEIVES = 24;

  /** A timeout of 16 ms. */
  private static final int SHORT = 12;

  private static final int NO_IMMEDIATE = -1;
  private static final int FIRST_PACKET = 77;
  private static final int MAX_DONE = 16;
  static final long LIMIT = Duration.ofSeconds(20).toNanos();

  private final Arena arena = Arena.ofShared();
  private final long context;
  private final long domain;
  private final long queue;
  private final long pair;
  private final long registration;
  private final MemorySegment done = arena.allocate(MAX_DONE * VerbsLayouts.COMPLETION.byteSize());
  final MemorySegment memory = arena.allocate(BYTES, 64);

  /** Packets whose answers may be on their way, from and to this end; until it is connected. */
  int answers = 16;

  /** Flags of the requests that follow. */
  int flags = IBV_SEND_SIGNALED;

  /** A completion. */
  record Done(long id, int status, int opcode, int immediate) {}

  /** Where another end can write. */
  record Address(int number, long memory, int key) {
    String text() {
      return number + " " + memory + " " + key;
    }

    static Address of(String text) {
      String[] parts = text.strip().split(" ");
      return new Address(
          Integer.parseInt(parts[0]), Long.parseLong(parts[1]), Integer.parseInt(parts[2]));
    }
  }

  /** Opens a port, for example {@code a0}, with memory of this access. */
  DeviceEnd(String port, int access) {
    this(port, access, 0);
  }

  /**
   * Opens a port.
   *
   * @param shared receives that this end takes instead of its own; 0 for none
   */
  DeviceEnd(String port, int access, long shared) {
    context = Verbs.open(SoftVerbs.PREFIX + port);
    domain = Verbs.allocateDomain(context);
    queue = Verbs.createCompletionQueue(context, 4 * DEPTH);
    registration = Verbs.register(domain, memory.address(), BYTES, access);
    MemorySegment request = arena.allocate(VerbsLayouts.QUEUE_PAIR_REQUEST);
    put(request, VerbsLayouts.QUEUE_PAIR_REQUEST, "send_cq", queue);
    put(request, VerbsLayouts.QUEUE_PAIR_REQUEST, "recv_cq", queue);
    put(request, VerbsLayouts.QUEUE_PAIR_REQUEST, "cap.max_send_wr", DEPTH);
    put(request, VerbsLayouts.QUEUE_PAIR_REQUEST, "cap.max_recv_wr", DEPTH);
    put(request, VerbsLayouts.QUEUE_PAIR_REQUEST, "cap.max_send_sge", 1);
    put(request, VerbsLayouts.QUEUE_PAIR_REQUEST, "cap.max_recv_sge", 1);
    put(request, VerbsLayouts.QUEUE_PAIR_REQUEST, "qp_type", IBV_QPT_RC);
    request.set(ValueLayout.JAVA_LONG, SHARED_RECEIVES, shared);
    pair = Verbs.createQueuePair(domain, request);
    MemorySegment attributes = attributes(IBV_QPS_INIT);
    put(attributes, VerbsLayouts.QUEUE_PAIR, "qp_access_flags", EVERYTHING);
    attributes.set(
        ValueLayout.JAVA_BYTE, VerbsLayouts.offset(VerbsLayouts.QUEUE_PAIR, "port_num"), (byte) 1);
    modify(
        attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");
  }

  Address address() {
    MemorySegment region = Verbs.memory(registration, VerbsLayouts.MEMORY.byteSize());
    return new Address(number(), memory.address(), integer(region, VerbsLayouts.MEMORY, "rkey"));
  }

  private int number() {
    MemorySegment object = Verbs.memory(pair, VerbsLayouts.QUEUE_PAIR_OBJECT.byteSize());
    return integer(object, VerbsLayouts.QUEUE_PAIR_OBJECT, "qp_num");
  }

  /** Connects to a queue pair of a port; two retries of 16 ms, and of 1 ms without a receive. */
  void connect(String port, int number) {
    connect(port, number, SHORT, 2);
  }

  /**
   * Connects to a queue pair of a port; two retries of 1 ms without a receive.
   *
   * @param timeout time after which a packet is sent again: 4 us shifted left by it
   */
  void connect(String port, int number, int timeout, int retries) {
    receiveFrom(port, number);
    MemorySegment attributes = attributes(IBV_QPS_RTS);
    put(attributes, VerbsLayouts.QUEUE_PAIR, "sq_psn", FIRST_PACKET);
    octet(attributes, "timeout", timeout);
    octet(attributes, "retry_cnt", retries);
    octet(attributes, "rnr_retry", 2);
    octet(attributes, "max_rd_atomic", answers);
    modify(
        attributes,
        IBV_QP_STATE
            | IBV_QP_TIMEOUT
            | IBV_QP_RETRY_CNT
            | IBV_QP_RNR_RETRY
            | IBV_QP_SQ_PSN
            | IBV_QP_MAX_QP_RD_ATOMIC,
        "RTS");
  }

  /** The step before sending. */
  void receiveFrom(String port, int number) {
    MemorySegment attributes = attributes(IBV_QPS_RTR);
    put(attributes, VerbsLayouts.QUEUE_PAIR, "dest_qp_num", number);
    put(attributes, VerbsLayouts.QUEUE_PAIR, "rq_psn", FIRST_PACKET);
    octet(attributes, "min_rnr_timer", 12);
    octet(attributes, "max_dest_rd_atomic", answers);
    octet(attributes, "ah_attr.is_global", 1);
    octet(attributes, "ah_attr.grh.sgid_index", 1);
    long other = Verbs.open(SoftVerbs.PREFIX + port);
    long gid = VerbsLayouts.offset(VerbsLayouts.QUEUE_PAIR, "ah_attr.grh.dgid");
    Verbs.queryGid(other, 1, 1, attributes.asSlice(gid, 16));
    Verbs.closeDevice(other);
    modify(
        attributes,
        IBV_QP_STATE
            | IBV_QP_AV
            | IBV_QP_PATH_MTU
            | IBV_QP_DEST_QPN
            | IBV_QP_RQ_PSN
            | IBV_QP_MAX_DEST_RD_ATOMIC
            | IBV_QP_MIN_RNR_TIMER,
        "RTR");
  }

  /** Posts a signalled write. */
  void write(long id, long from, long bytes, long to, int key) {
    send(id, IBV_WR_RDMA_WRITE, from, bytes, to, key, NO_IMMEDIATE);
  }

  /** Posts a signalled write that the other end counts. */
  void announce(long id, long from, long bytes, long to, int key, int immediate) {
    send(id, IBV_WR_RDMA_WRITE_WITH_IMM, from, bytes, to, key, immediate);
  }

  /** Posts a signalled message. */
  void message(long id, long from, long bytes) {
    send(id, IBV_WR_SEND, from, bytes, 0, 0, NO_IMMEDIATE);
  }

  /** Posts a signalled read. */
  void read(long id, long to, long bytes, long from, int key) {
    send(id, IBV_WR_RDMA_READ, to, bytes, from, key, NO_IMMEDIATE);
  }

  /** Posts a signalled addition to 8 bytes; those before it are stored here. */
  void add(long id, long to, long value, long at, int key) {
    try (Arena call = Arena.ofConfined()) {
      MemorySegment request =
          request(call, id, IBV_WR_ATOMIC_FETCH_AND_ADD, to, Long.BYTES, at, NO_IMMEDIATE);
      request.set(ValueLayout.JAVA_LONG, COMPARE_OR_ADD, value);
      request.set(ValueLayout.JAVA_INT, ATOMIC_KEY, key);
      post("ops.post_send", call, request);
    }
  }

  /**
   * Posts a signalled exchange of 8 bytes where they are as expected; those before it are stored.
   */
  void swap(long id, long to, long expected, long value, long at, int key) {
    try (Arena call = Arena.ofConfined()) {
      MemorySegment request =
          request(call, id, IBV_WR_ATOMIC_CMP_AND_SWP, to, Long.BYTES, at, NO_IMMEDIATE);
      request.set(ValueLayout.JAVA_LONG, COMPARE_OR_ADD, expected);
      request.set(ValueLayout.JAVA_LONG, SWAP, value);
      request.set(ValueLayout.JAVA_INT, ATOMIC_KEY, key);
      post("ops.post_send", call, request);
    }
  }

  private void send(long id, int opcode, long from, long bytes, long to, int key, int immediate) {
    try (Arena call = Arena.ofConfined()) {
      MemorySegment request = request(call, id, opcode, from, bytes, to, immediate);
      put(request, VerbsLayouts.SEND, "wr.rdma.rkey", key);
      post("ops.post_send", call, request);
    }
  }

  private MemorySegment request(
      Arena call, long id, int opcode, long here, long bytes, long there, int immediate) {
    MemorySegment request = call.allocate(VerbsLayouts.SEND);
    put(request, VerbsLayouts.SEND, "wr_id", id);
    put(request, VerbsLayouts.SEND, "sg_list", piece(call, here, bytes).address());
    put(request, VerbsLayouts.SEND, "num_sge", 1);
    put(request, VerbsLayouts.SEND, "opcode", opcode);
    put(request, VerbsLayouts.SEND, "send_flags", flags);
    put(request, VerbsLayouts.SEND, "imm_data", immediate);
    put(request, VerbsLayouts.SEND, "wr.rdma.remote_addr", there);
    return request;
  }

  /** Posts a receive into the memory. */
  void receive(long id, long to, long bytes) {
    try (Arena call = Arena.ofConfined()) {
      post("ops.post_recv", call, receiveRequest(call, id, to, bytes));
    }
  }

  /** A receive into the memory, to be posted elsewhere. */
  MemorySegment receiveRequest(Arena call, long id, long to, long bytes) {
    MemorySegment request = call.allocate(VerbsLayouts.RECEIVE);
    put(request, VerbsLayouts.RECEIVE, "wr_id", id);
    put(request, VerbsLayouts.RECEIVE, "sg_list", piece(call, to, bytes).address());
    put(request, VerbsLayouts.RECEIVE, "num_sge", 1);
    return request;
  }

  long domain() {
    return domain;
  }

  private MemorySegment piece(Arena call, long at, long bytes) {
    MemorySegment region = Verbs.memory(registration, VerbsLayouts.MEMORY.byteSize());
    MemorySegment piece = call.allocate(VerbsLayouts.PIECE);
    put(piece, VerbsLayouts.PIECE, "addr", memory.address() + at);
    put(piece, VerbsLayouts.PIECE, "length", (int) bytes);
    put(piece, VerbsLayouts.PIECE, "lkey", integer(region, VerbsLayouts.MEMORY, "lkey"));
    return piece;
  }

  private void post(String operation, Arena call, MemorySegment request) {
    long refused = call.allocate(ValueLayout.JAVA_LONG).address();
    int error = VerbsQueues.post(operation(operation), pair, request.address(), refused);
    if (error != 0) {
      throw new IllegalStateException(operation + " returned " + error);
    }
  }

  private MemorySegment operation(String name) {
    MemorySegment functions = Verbs.memory(context, VerbsLayouts.CONTEXT.byteSize());
    long offset = VerbsLayouts.offset(VerbsLayouts.CONTEXT, name);
    return MemorySegment.ofAddress(functions.get(ValueLayout.JAVA_LONG, offset));
  }

  /** Waits for completions. */
  List<Done> await(int count) {
    long end = System.nanoTime() + LIMIT;
    List<Done> all = new ArrayList<>();
    while (all.size() < count) {
      all.addAll(poll());
      if (System.nanoTime() > end) {
        throw new AssertionError("waited too long for %d completions: %s".formatted(count, all));
      }
    }
    return all;
  }

  /** The completions of this moment. */
  List<Done> poll() {
    int count = VerbsQueues.poll(operation("ops.poll_cq"), queue, MAX_DONE, done.address());
    List<Done> some = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      MemorySegment one =
          done.asSlice(i * VerbsLayouts.COMPLETION.byteSize(), VerbsLayouts.COMPLETION.byteSize());
      some.add(
          new Done(
              one.get(ValueLayout.JAVA_LONG, VerbsLayouts.offset(VerbsLayouts.COMPLETION, "wr_id")),
              integer(one, VerbsLayouts.COMPLETION, "status"),
              integer(one, VerbsLayouts.COMPLETION, "opcode"),
              integer(one, VerbsLayouts.COMPLETION, "imm_data")));
    }
    return some;
  }

  private MemorySegment attributes(int state) {
    MemorySegment attributes = arena.allocate(VerbsLayouts.QUEUE_PAIR);
    put(attributes, VerbsLayouts.QUEUE_PAIR, "qp_state", state);
    return attributes;
  }

  private void modify(MemorySegment attributes, int mask, String step) {
    Verbs.modify(pair, attributes, mask, step);
  }

  private static int integer(MemorySegment from, StructLayout layout, String member) {
    return from.get(ValueLayout.JAVA_INT, VerbsLayouts.offset(layout, member));
  }

  private static void put(MemorySegment to, StructLayout layout, String member, long value) {
    to.set(ValueLayout.JAVA_LONG, VerbsLayouts.offset(layout, member), value);
  }

  private static void put(MemorySegment to, StructLayout layout, String member, int value) {
    to.set(ValueLayout.JAVA_INT, VerbsLayouts.offset(layout, member), value);
  }

  private static void octet(MemorySegment to, String member, int value) {
    to.set(
        ValueLayout.JAVA_BYTE, VerbsLayouts.offset(VerbsLayouts.QUEUE_PAIR, member), (byte) value);
  }

  @Override
  public void close() {
    Verbs.destroyQueuePair(pair);
    Verbs.destroyCompletionQueue(queue);
    Verbs.deregister(registration);
    Verbs.deallocateDomain(domain);
    Verbs.closeDevice(context);
    arena.close();
  }
}
