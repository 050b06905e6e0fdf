package org.ep4j.group.rendezvous;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.SocketTimeoutException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.SortedMap;
import java.util.TreeMap;
import org.ep4j.group.JobKey;
import org.ep4j.group.protocol.BlockingFrameChannel;
import org.ep4j.group.protocol.Deadline;
import org.ep4j.group.protocol.Frames;
import org.jspecify.annotations.Nullable;

/**
 * A program that looks at a running job without being a member: it connects to the rendezvous with
 * the secret of the job. One thread.
 */
public final class JobObserver implements AutoCloseable {
  private final InetSocketAddress rendezvous;
  private final JobKey key;

  /** Null after a question without a whole answer: what comes late belongs to no later one. */
  private @Nullable BlockingFrameChannel channel;

  /**
   * What the members answered.
   *
   * @param size ranks of the job
   * @param asked members that were alive
   * @param ofRank what each rank passes to {@link org.ep4j.group.Group#observable}, in the order in
   *     which it did; no entry for ranks that did not answer in time
   */
  public record Answer(
      String jobId, int size, int asked, SortedMap<Integer, List<byte[]>> ofRank) {}

  private JobObserver(InetSocketAddress rendezvous, JobKey key) {
    this.rendezvous = rendezvous;
    this.key = key;
  }

  /**
   * Connects.
   *
   * @throws IOException if no rendezvous answers there
   * @throws org.ep4j.group.JoinRefusedException if it has another secret or version
   */
  public static JobObserver open(InetSocketAddress rendezvous, String secret, Duration timeout)
      throws IOException {
    JobObserver observer = new JobObserver(rendezvous, JobKey.of(secret));
    observer.channel(Deadline.after(timeout));
    return observer;
  }

  private BlockingFrameChannel channel(Deadline deadline) throws IOException {
    BlockingFrameChannel connected = channel;
    if (connected == null) {
      connected = BlockingFrameChannel.open(rendezvous, key, Frames.Purpose.RENDEZVOUS, deadline);
      channel = connected;
    }
    return connected;
  }

  /**
   * Asks all members.
   *
   * @param timeout maximum wait; the answer then lacks ranks
   * @throws SocketTimeoutException if the rendezvous does not answer in time
   * @throws IOException if the job has ended
   * @throws org.ep4j.group.JoinRefusedException if the job has not formed yet
   */
  public Answer ask(Duration timeout) throws IOException {
    Deadline deadline = Deadline.after(timeout);
    BlockingFrameChannel connected = channel(deadline);
    connected.send(Frames.empty(Frames.OBSERVE));
    SortedMap<Integer, List<byte[]>> ofRank = new TreeMap<>();
    int size = 0;
    int asked = Integer.MAX_VALUE;
    String jobId = "";
    try {
      while (ofRank.size() < asked) {
        Frames.Frame frame = connected.receive(Frames.MAX, deadline);
        ByteBuffer body = frame.body();
        if (frame.type() == Frames.OBSERVED) {
          size = body.getInt();
          asked = body.getInt();
          jobId = Frames.text(body);
        } else if (frame.type() == Frames.OBSERVATION) {
          body.getInt();
          int rank = body.getInt();
          ofRank.put(rank, observations(body));
        } else {
          throw connected.wrongProtocol("a frame of type " + frame.type(), null);
        }
      }
    } catch (IOException e) {
      // What still arrives belongs to this question.
      close();
      if (size == 0 || !(e instanceof SocketTimeoutException)) {
        throw e;
      }
    } catch (BufferUnderflowException | NegativeArraySizeException e) {
      throw connected.wrongProtocol("a frame that is too short", e);
    }
    return new Answer(jobId, size, asked, ofRank);
  }

  private static List<byte[]> observations(ByteBuffer body) {
    int count = body.getInt();
    List<byte[]> all = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      int length = body.getInt();
      if (length > body.remaining()) {
        throw new BufferUnderflowException();
      }
      byte[] bytes = new byte[length];
      body.get(bytes);
      all.add(bytes);
    }
    return all;
  }

  @Override
  public void close() {
    BlockingFrameChannel connected = channel;
    channel = null;
    if (connected != null) {
      connected.close();
    }
  }
}
