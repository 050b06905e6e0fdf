package org.ep4j.group.rendezvous;

import java.io.IOException;
import java.net.InetSocketAddress;
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

/**
 * A program that looks at a running job without being a member: it connects to the rendezvous with
 * the secret of the job. One thread.
 */
public final class JobObserver implements AutoCloseable {
  private final BlockingFrameChannel channel;

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

  private JobObserver(BlockingFrameChannel channel) {
    this.channel = channel;
  }

  /**
   * Connects.
   *
   * @throws IOException if no rendezvous answers there
   * @throws org.ep4j.group.JoinRefusedException if it has another secret or version
   */
  public static JobObserver open(InetSocketAddress rendezvous, String secret, Duration timeout)
      throws IOException {
    return new JobObserver(
        BlockingFrameChannel.open(
            rendezvous, JobKey.of(secret), Frames.Purpose.RENDEZVOUS, Deadline.after(timeout)));
  }

  /**
   * Asks all members.
   *
   * @param timeout maximum wait; the answer then lacks ranks
   * @throws IOException if the job has ended
   * @throws org.ep4j.group.JoinRefusedException if the job has not formed yet
   */
  public Answer ask(Duration timeout) throws IOException {
    Deadline deadline = Deadline.after(timeout);
    channel.send(Frames.empty(Frames.OBSERVE));
    SortedMap<Integer, List<byte[]>> ofRank = new TreeMap<>();
    int size = 0;
    int asked = Integer.MAX_VALUE;
    String jobId = "";
    try {
      while (ofRank.size() < asked) {
        Frames.Frame frame = channel.receive(Frames.MAX, deadline);
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
          throw channel.wrongProtocol("a frame of type " + frame.type(), null);
        }
      }
    } catch (java.net.SocketTimeoutException e) {
      if (size == 0) {
        throw e;
      }
    } catch (BufferUnderflowException | NegativeArraySizeException e) {
      throw channel.wrongProtocol("a frame that is too short", e);
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
    channel.close();
  }
}
