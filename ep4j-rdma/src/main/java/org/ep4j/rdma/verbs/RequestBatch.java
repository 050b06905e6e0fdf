package org.ep4j.rdma.verbs;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.rdma.verbs.bindings.VerbsConstants;
import org.ep4j.rdma.verbs.bindings.VerbsControlLayout;
import org.ep4j.rdma.verbs.bindings.VerbsLayouts;
import org.ep4j.rdma.verbs.bindings.VerbsQueues;

/**
 * Requests that are posted to a queue pair together: a chain of {@code ibv_send_wr}, filled from
 * the front and posted with one doorbell. The last request is signalled: its completion covers all
 * before it. Short payloads are inline.
 */
final class RequestBatch {
  /** Maximum number of requests. */
  static final int MAX = 16;

  private static final long REQUEST = VerbsLayouts.SEND.byteSize();
  private static final long ID = VerbsLayouts.offset(VerbsLayouts.SEND, "wr_id");
  private static final long NEXT = VerbsLayouts.offset(VerbsLayouts.SEND, "next");
  private static final long PIECES = VerbsLayouts.offset(VerbsLayouts.SEND, "sg_list");
  private static final long COUNT = VerbsLayouts.offset(VerbsLayouts.SEND, "num_sge");
  private static final long OPCODE = VerbsLayouts.offset(VerbsLayouts.SEND, "opcode");
  private static final long FLAGS = VerbsLayouts.offset(VerbsLayouts.SEND, "send_flags");
  private static final long IMMEDIATE = VerbsLayouts.offset(VerbsLayouts.SEND, "imm_data");
  private static final long REMOTE = VerbsLayouts.offset(VerbsLayouts.SEND, "wr.rdma.remote_addr");
  private static final long KEY = VerbsLayouts.offset(VerbsLayouts.SEND, "wr.rdma.rkey");

  private static final long PIECE = VerbsLayouts.PIECE.byteSize();
  private static final long ADDRESS = VerbsLayouts.offset(VerbsLayouts.PIECE, "addr");
  private static final long LENGTH = VerbsLayouts.offset(VerbsLayouts.PIECE, "length");
  private static final long LOCAL_KEY = VerbsLayouts.offset(VerbsLayouts.PIECE, "lkey");

  private final MemorySegment requests;
  private final MemorySegment pieces;

  /** Messages and words of the requests; the device copies them on posting. */
  private final MemorySegment contents;

  private final long refused;
  private int size;

  RequestBatch(Arena arena) {
    requests = arena.allocate(MAX * REQUEST, 64);
    pieces = arena.allocate(MAX * PIECE, 64);
    contents = arena.allocate((long) MAX * VerbsControlLayout.MESSAGE_BYTES, 64);
    refused = arena.allocate(ValueLayout.JAVA_LONG).address();
    for (int i = 0; i < MAX; i++) {
      long piece = pieces.address() + i * PIECE;
      requests.set(ValueLayout.JAVA_LONG, i * REQUEST + PIECES, piece);
      link(i);
    }
  }

  private void link(int i) {
    long next = i + 1 < MAX ? requests.address() + (i + 1) * REQUEST : 0;
    requests.set(ValueLayout.JAVA_LONG, i * REQUEST + NEXT, next);
  }

  void clear() {
    size = 0;
  }

  int size() {
    return size;
  }

  boolean full() {
    return size == MAX;
  }

  /**
   * Appends a write.
   *
   * @param counter immediate data; negative for none
   */
  void write(
      long id,
      long local,
      int localKey,
      int bytes,
      long remote,
      int remoteKey,
      int counter,
      boolean inline) {
    long at = size * REQUEST;
    requests.set(ValueLayout.JAVA_LONG, at + ID, id);
    requests.set(ValueLayout.JAVA_INT, at + COUNT, bytes == 0 ? 0 : 1);
    requests.set(
        ValueLayout.JAVA_INT,
        at + OPCODE,
        counter < 0 ? VerbsConstants.IBV_WR_RDMA_WRITE : VerbsConstants.IBV_WR_RDMA_WRITE_WITH_IMM);
    requests.set(ValueLayout.JAVA_INT, at + FLAGS, inline ? VerbsConstants.IBV_SEND_INLINE : 0);
    requests.set(ValueLayout.JAVA_INT, at + IMMEDIATE, counter);
    requests.set(ValueLayout.JAVA_LONG, at + REMOTE, remote);
    requests.set(ValueLayout.JAVA_INT, at + KEY, remoteKey);
    piece(local, bytes, localKey);
    size++;
  }

  /** Appends a write of a word of 8 bytes. */
  void word(long id, long value, long remote, int remoteKey) {
    long content = (long) size * VerbsControlLayout.MESSAGE_BYTES;
    contents.set(ValueLayout.JAVA_LONG, content, value);
    write(id, contents.address() + content, 0, Long.BYTES, remote, remoteKey, -1, true);
  }

  /** Appends a message. */
  void message(long id, int kind, int number, long value) {
    long content = (long) size * VerbsControlLayout.MESSAGE_BYTES;
    VerbsControlLayout.message(contents, content, kind, number, value);
    long at = size * REQUEST;
    requests.set(ValueLayout.JAVA_LONG, at + ID, id);
    requests.set(ValueLayout.JAVA_INT, at + COUNT, 1);
    requests.set(ValueLayout.JAVA_INT, at + OPCODE, VerbsConstants.IBV_WR_SEND);
    requests.set(ValueLayout.JAVA_INT, at + FLAGS, VerbsConstants.IBV_SEND_INLINE);
    piece(contents.address() + content, VerbsControlLayout.MESSAGE_BYTES, 0);
    size++;
  }

  private void piece(long address, int bytes, int key) {
    long at = size * PIECE;
    pieces.set(ValueLayout.JAVA_LONG, at + ADDRESS, address);
    pieces.set(ValueLayout.JAVA_INT, at + LENGTH, bytes);
    pieces.set(ValueLayout.JAVA_INT, at + LOCAL_KEY, key);
  }

  /**
   * Posts the requests.
   *
   * @return 0 or an error number
   */
  int post(MemorySegment function, long pair) {
    long last = (size - 1) * REQUEST;
    int flags = requests.get(ValueLayout.JAVA_INT, last + FLAGS);
    requests.set(ValueLayout.JAVA_INT, last + FLAGS, flags | VerbsConstants.IBV_SEND_SIGNALED);
    requests.set(ValueLayout.JAVA_LONG, last + NEXT, 0);
    int error = VerbsQueues.post(function, pair, requests.address(), refused);
    link(size - 1);
    return error;
  }
}
