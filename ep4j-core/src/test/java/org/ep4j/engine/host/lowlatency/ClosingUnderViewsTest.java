package org.ep4j.engine.host.lowlatency;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.config;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.dispatch;

import java.nio.ByteBuffer;
import java.nio.channels.Pipe;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.ep4j.ExpertBuffer;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Test;

class ClosingUnderViewsTest {
  private static final Duration LIMIT = Duration.ofSeconds(30);

  /** The system call writes into the rows after the attempt to close. */
  @Test
  void rowsStayMappedWhileASystemCallWritesThem() {
    ThreadRanks.run(
        2,
        group -> {
          ExpertBuffer buffer = ExpertBuffer.open(group, config().build());
          ByteBuffer rows = dispatch(buffer).x().segment().asByteBuffer();
          group.barrier(LIMIT);
          Pipe pipe = Pipe.open();
          try (Pipe.SourceChannel source = pipe.source();
              Pipe.SinkChannel sink = pipe.sink()) {
            FutureTask<Integer> read = new FutureTask<>(() -> source.read(rows));
            Thread reader = Thread.ofPlatform().daemon().start(read);
            awaitSystemCall(reader);
            assertThatThrownBy(buffer::close).isInstanceOf(IllegalStateException.class);
            sink.write(ByteBuffer.wrap(new byte[] {1, 2, 3}));
            assertThat(read.get(LIMIT.toSeconds(), TimeUnit.SECONDS)).isEqualTo(3);
            assertThat(rows.get(2)).isEqualTo((byte) 3);
          }
        });
  }

  private static void awaitSystemCall(Thread reader) throws InterruptedException {
    long deadline = System.nanoTime() + LIMIT.toNanos();
    while (Arrays.stream(reader.getStackTrace())
        .noneMatch(f -> f.getMethodName().equals("read0"))) {
      assertThat(System.nanoTime() - deadline).as("the reader reads").isNegative();
      Thread.sleep(1);
    }
  }
}
