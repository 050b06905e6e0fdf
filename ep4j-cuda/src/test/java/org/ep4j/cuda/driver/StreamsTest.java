package org.ep4j.cuda.driver;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.ValueLayout;
import java.time.Duration;
import org.ep4j.error.ErrorCode;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Streams, events and graphs; needs a GPU. */
class StreamsTest {
  private static final int BYTES = 64 << 20;

  @SuppressWarnings("NullAway.Init") // before each test
  private CudaDevice device;

  @BeforeEach
  void open() {
    device = Gpu.open();
  }

  @AfterEach
  void close() {
    if (device != null) {
      device.close();
    }
  }

  @Test
  void aStreamWaitsForAnEventOfAnother() {
    try (DeviceMemory memory = DeviceMemory.allocate(device, BYTES);
        PinnedMemory host = PinnedMemory.allocate(device, 4);
        CudaStream first = CudaStream.create(device);
        CudaStream second = CudaStream.createUrgent(device);
        CudaEvent event = CudaEvent.create(device)) {
      for (int round = 1; round <= 20; round++) {
        memory.fill32(0, BYTES / 4, round, first);
        event.record(first);
        second.waitFor(event);
        memory.copyTo(BYTES - 4, host.segment(), second);
        second.synchronize();
        assertThat(host.segment().get(ValueLayout.JAVA_INT, 0)).isEqualTo(round);
        first.synchronize();
      }
    }
  }

  @Test
  void eventsMeasureTime() {
    try (DeviceMemory memory = DeviceMemory.allocate(device, BYTES);
        CudaStream stream = CudaStream.create(device);
        CudaEvent start = CudaEvent.createTimed(device);
        CudaEvent end = CudaEvent.createTimed(device)) {
      start.record(stream);
      memory.fill8(0, BYTES, (byte) 1, stream);
      end.record(stream.handle());
      assertThat(end.await(Duration.ofSeconds(10))).isTrue();
      assertThat(end.query()).isTrue();
      assertThat(stream.query()).isTrue();
      assertThat(end.millisSince(start)).isPositive().isLessThan(10_000);
    }
  }

  @Test
  void aViewOfAStreamLeavesItOpen() {
    try (CudaStream stream = CudaStream.create(device);
        DeviceMemory memory = DeviceMemory.allocate(device, 64)) {
      CudaStream view = CudaStream.wrapping(device, stream.handle());
      memory.fill8(0, 64, (byte) 1, view);
      view.close();
      assertThatThrownBy(view::handle).isInstanceOf(IllegalStateException.class);
      stream.synchronize();
    }
  }

  @Test
  void theDefaultStreamCanBeWrapped() {
    try (CudaStream stream = CudaStream.wrapping(device, 0);
        DeviceMemory memory = DeviceMemory.allocate(device, 64)) {
      memory.fill8(0, 64, (byte) 1, stream);
      stream.synchronize();
      assertThat(stream.query()).isTrue();
    }
  }

  @Test
  void aGraphReplaysWhatWasRecorded() {
    try (DeviceMemory memory = DeviceMemory.allocate(device, 64);
        PinnedMemory host = PinnedMemory.allocate(device, 64);
        CudaStream stream = CudaStream.create(device)) {
      assertThat(stream.capturing()).isFalse();
      stream.beginCapture();
      assertThat(stream.capturing()).isTrue();
      memory.copyFrom(0, host.segment().asSlice(0, 4), stream);
      memory.copyTo(0, host.segment().asSlice(32, 4), stream);
      try (CudaGraph graph = stream.endCapture();
          CudaGraphExec exec = graph.instantiate()) {
        assertThat(graph.nodes()).isEqualTo(2);
        exec.upload(stream);
        for (int value = 1; value <= 3; value++) {
          host.segment().set(ValueLayout.JAVA_INT, 0, value);
          exec.launch(stream);
          stream.synchronize();
          assertThat(host.segment().get(ValueLayout.JAVA_INT, 32)).isEqualTo(value);
        }
      }
    }
  }

  @Test
  void closedObjectsAreReportedAndClosingTwiceIsHarmless() {
    CudaStream stream = CudaStream.create(device);
    CudaEvent event = CudaEvent.create(device);
    for (int i = 0; i < 2; i++) {
      stream.close();
      event.close();
    }
    assertThatThrownBy(stream::query)
        .isInstanceOf(IllegalStateException.class)
        .hasMessageStartingWith(ErrorCode.CUDA_CLOSED.id());
    assertThatThrownBy(event::query)
        .isInstanceOf(IllegalStateException.class)
        .hasMessageStartingWith(ErrorCode.CUDA_CLOSED.id());
  }
}
