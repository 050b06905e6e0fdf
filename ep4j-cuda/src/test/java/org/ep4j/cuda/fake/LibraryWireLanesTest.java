package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.ep4j.config.BackendName;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.WireName;
import org.ep4j.config.WireOptions;
import org.ep4j.cuda.backend.Backend;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.backend.Backends;
import org.ep4j.cuda.backend.PutOffer;
import org.ep4j.cuda.backend.PutShape;
import org.ep4j.cuda.backend.PutTransport;
import org.ep4j.cuda.backend.SymmetricRegion;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.engine.Batch;
import org.ep4j.cuda.internode.InternodeConnection;
import org.ep4j.cuda.internode.InternodeSizes;
import org.ep4j.cuda.jit.DevicePart;
import org.ep4j.engine.world.ConfigAgreement;
import org.ep4j.engine.world.Nodes;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.memory.Participants;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** The lanes that the wire {@code backend} asks its backend for. */
@OnFakeDriver
class LibraryWireLanesTest {
  private static final Duration LIMIT = Duration.ofSeconds(30);
  private static final InternodeSizes SIZES = new InternodeSizes(64, 1024, 0, 0, 0, 0, 0);

  @Test
  void theBackendIsAskedForTheLanesOfTheBuffer() {
    assertThat(asked(WireOptions.builder().lanes(5).build())).isEqualTo(5);
    assertThat(asked(WireOptions.DEFAULT)).isEqualTo(8);
  }

  /** The lanes of the shape with which two ranks ask. */
  private static int asked(WireOptions options) {
    AtomicInteger lanes = new AtomicInteger();
    ThreadRanks.run(
        2,
        group ->
            assertThatThrownBy(() -> open(group, options, lanes, null))
                .isInstanceOf(EngineUnavailableException.class)
                .hasMessageStartingWith(ErrorCode.BACKEND_NO_TRANSPORT.id()));
    return lanes.get();
  }

  @Test
  void moreLanesThanTheTransportHasAreRefusedOnAllRanks() {
    WireOptions nine = WireOptions.builder().lanes(9).build();
    AtomicInteger closed = new AtomicInteger();
    ThreadRanks.run(
        2,
        group ->
            assertThatThrownBy(() -> open(group, nine, new AtomicInteger(), new EightLanes(closed)))
                .isInstanceOf(InvalidArgumentException.class)
                .hasMessageStartingWith(ErrorCode.LIBRARY_LANES.id())
                .hasMessageContaining("EP4J_WIRE_LANES")
                .hasMessageContaining("9")
                .hasMessageContaining("at most 8"));
    assertThat(closed).hasValue(2);
  }

  private static void open(
      Group group, WireOptions options, AtomicInteger lanes, @Nullable PutTransport offered) {
    BufferConfig config =
        Batch.config(OneRank.TOKENS)
            .wire(WireName.BACKEND)
            .ranksPerNode(1)
            .wireOptions(options)
            .timeout(LIMIT)
            .build();
    Nodes nodes = ConfigAgreement.nodes(group, 1, LIMIT);
    try (CudaDevice device = CudaDevice.open(group.rank());
        Backend direct =
            Backends.open(BackendName.DIRECT, Participants.ofAll(group), device, LIMIT)) {
      Backend asked = new Asked(direct, lanes, offered);
      InternodeConnection.open(Participants.ofAll(group), device, asked, config, nodes, SIZES)
          .close();
    }
  }

  /** Memory of the backend {@code direct}, and an offer of puts by a library. */
  private record Asked(Backend direct, AtomicInteger lanes, @Nullable PutTransport offered)
      implements Backend {
    @Override
    public PutOffer offerPuts(SymmetricRegion region, PutShape shape, boolean[] intranode) {
      lanes.set(shape.lanes());
      return new PutOffer(offered, "");
    }

    @Override
    public String name() {
      return direct.name();
    }

    @Override
    public BackendWorld world() {
      return direct.world();
    }

    @Override
    public SymmetricRegion allocate(long bytes) {
      return direct.allocate(bytes);
    }

    @Override
    public String refusesReadmission() {
      return direct.refusesReadmission();
    }

    @Override
    public void close() {}
  }

  /** A library with eight queues. */
  private record EightLanes(AtomicInteger closed) implements PutTransport {
    @Override
    public int maxLanes() {
      return 8;
    }

    @Override
    public String text() {
      return "eight lanes";
    }

    @Override
    public boolean movesAll() {
      return false;
    }

    @Override
    public List<DevicePart> parts() {
      return List.of();
    }

    @Override
    public long library() {
      return 0;
    }

    @Override
    public long window() {
      return 0;
    }

    @Override
    public void loaded(CudaModule module) {}

    @Override
    public void unloading(CudaModule module) {}

    @Override
    public void close() {
      closed.incrementAndGet();
    }
  }
}
