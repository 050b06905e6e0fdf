package org.ep4j.cuda.engine;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import org.ep4j.config.BufferConfig;
import org.ep4j.cuda.backend.Backend;
import org.ep4j.cuda.backend.BackendChoice;
import org.ep4j.cuda.backend.Backends;
import org.ep4j.cuda.backend.DeviceChoice;
import org.ep4j.cuda.backend.SymmetricRegion;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.DeviceProperties;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.engine.context.CudaContext;
import org.ep4j.cuda.engine.context.KernelObservations;
import org.ep4j.cuda.engine.context.Peers;
import org.ep4j.cuda.engine.context.RegionLayout;
import org.ep4j.cuda.engine.context.Staging;
import org.ep4j.cuda.engine.failure.AbortNotices;
import org.ep4j.cuda.engine.failure.CallLog;
import org.ep4j.cuda.engine.failure.Completion;
import org.ep4j.cuda.engine.failure.FailureDiagnosis;
import org.ep4j.cuda.engine.failure.HostWords;
import org.ep4j.cuda.engine.failure.RemoteWords;
import org.ep4j.cuda.engine.failure.StaleRankFence;
import org.ep4j.cuda.engine.launch.KernelFiles;
import org.ep4j.cuda.engine.launch.Kernels;
import org.ep4j.cuda.engine.lowlatency.LowLatency;
import org.ep4j.cuda.engine.lowlatency.LowLatencyKernels;
import org.ep4j.cuda.engine.lowlatency.LowLatencyKernels.Reach;
import org.ep4j.cuda.engine.lowlatency.LowLatencyLayout;
import org.ep4j.cuda.engine.lowlatency.LowLatencyMemory;
import org.ep4j.cuda.engine.lowlatency.LowLatencyRegion;
import org.ep4j.cuda.engine.throughput.CudaDispatchLayout;
import org.ep4j.cuda.engine.throughput.CudaHandles;
import org.ep4j.cuda.engine.throughput.HandleLayout;
import org.ep4j.cuda.internode.InternodeConnection;
import org.ep4j.cuda.internode.InternodeMemory;
import org.ep4j.cuda.internode.InternodeSizes;
import org.ep4j.cuda.internode.WireChoice;
import org.ep4j.cuda.jit.KernelCompiler;
import org.ep4j.cuda.jit.KernelConstants;
import org.ep4j.engine.Limits;
import org.ep4j.engine.lowlatency.OutputShape;
import org.ep4j.engine.world.ConfigAgreement;
import org.ep4j.engine.world.Members;
import org.ep4j.engine.world.Nodes;
import org.ep4j.engine.world.SurvivorAgreement;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.memory.Participants;
import org.ep4j.observe.TimeoutLog;
import org.ep4j.observe.WindowRecorder;
import org.ep4j.routing.ExpertPlacement;

/**
 * Creates what a buffer owns; closes it in reverse order when the buffer closes, or immediately if
 * the opening fails.
 */
final class CudaBufferOpening implements AutoCloseable {
  private static final int MAX_EXPERTS_PER_RANK = 1 << 16;
  private static final int NO_RANK = 0xffff;

  private final ResourceStack owned = new ResourceStack();

  private <T extends AutoCloseable> T own(T resource) {
    return owned.own(resource);
  }

  /** Opens a buffer; collective. */
  static CudaBuffer open(Group group, BufferConfig wanted) {
    return open(group, wanted, ConfigAgreement.hostOf(group));
  }

  /**
   * Opens a buffer on a host with this identity; collective.
   *
   * @param host ranks with the same identity share host memory
   */
  static CudaBuffer open(Group group, BufferConfig wanted, String host) {
    BufferConfig config = settled(wanted);
    CudaBufferOpening opening = new CudaBufferOpening();
    boolean complete = false;
    try {
      // The ranks agree on the configuration, including the backend, before any data is sent.
      Nodes nodes =
          ConfigAgreement.require(
              group, config, host, new NvlinkDomains(group, config, () -> opening.device(group)));
      CudaBuffer buffer =
          opening.build(group, config, nodes, Participants.ofAll(group), RejoinSteps.NONE);
      complete = true;
      return buffer;
    } finally {
      if (!complete) {
        opening.close();
      }
    }
  }

  /**
   * The configuration with the backend from property and variables, so that ranks compare effective
   * values.
   */
  static BufferConfig settled(BufferConfig config) {
    return config.toBuilder().backend(BackendChoice.of(config.backend()).name()).build();
  }

  /** Opens the buffer of a returning rank; collective with readmit() on the others. */
  static CudaBuffer rejoin(Group group, BufferConfig wanted) {
    BufferConfig config =
        SurvivorAgreement.prepared(
            group,
            wanted.timeout(),
            () -> {
              BufferConfig settled = settled(wanted);
              // Compiles missing kernels while no rank waits for this one.
              prepareAhead(DeviceChoice.ordinal(group), settled, group.size());
              return settled;
            });
    CudaBufferOpening opening = new CudaBufferOpening();
    boolean complete = false;
    try (SurvivorAgreement agreement =
        SurvivorAgreement.ofNewcomer(group, config, Recovery.AGREED_WORDS)) {
      CudaBuffer buffer = opening.rejoin(group, config, agreement);
      complete = true;
      return buffer;
    } finally {
      if (!complete) {
        opening.close();
      }
    }
  }

  /** The other ranks learn a failure before the memory that they may map is freed. */
  private CudaBuffer rejoin(Group group, BufferConfig config, SurvivorAgreement agreement) {
    RejoinSteps steps = new RejoinSteps(agreement);
    CudaBuffer buffer =
        steps.telling(
            () -> {
              CudaBuffer built =
                  build(group, config, agreement.nodes(), agreement.participants(), steps);
              steps.meet();
              return built;
            });
    buffer.rejoin(agreement);
    return buffer;
  }

  /**
   * @param participants the ranks that have the buffer; either some of them return, or all open
   * @param rejoin where the ranks that have the buffer meet a rank that returns
   */
  private CudaBuffer build(
      Group group,
      BufferConfig wanted,
      Nodes nodes,
      Participants participants,
      RejoinSteps rejoin) {
    // Refuses what no rank can open, before any of them waits for another.
    RegionLayout layout = new RegionLayout(wanted, nodes);
    boolean again = participants.isNew(participants.rank());
    TimeoutLog timeouts = new TimeoutLog(group.rank());
    Duration timeout = wanted.timeout();
    OpeningSteps steps = new OpeningSteps(participants, timeout);
    boolean one = nodes.count() == 1;
    CudaDevice device =
        steps.together(
            "the GPU",
            () -> {
              int ordinal = DeviceChoice.ordinal(group);
              if (one) {
                prepareNode(ordinal, wanted);
              }
              CudaDevice opened = device(group);
              opened.makeCurrent();
              if (one) {
                requireBulkCopies(opened, wanted);
              }
              return opened;
            });
    rejoin.meet();
    Backend backend = own(Backends.open(wanted.backend(), participants, device, timeout));
    requireReadmission(backend, again);
    InternodeConnection internode =
        one ? null : internode(participants, steps, rejoin, device, backend, wanted, nodes, layout);
    BufferConfig config =
        internode == null
            ? wanted
            : wanted.toBuilder()
                .wire(internode.wire())
                .wireOptions(internode.wireOptions())
                .build();
    SymmetricRegion shared =
        steps.together(
            "the region of " + layout.bytes + " bytes that peers write",
            () -> allocate(backend, nodes, layout.bytes));
    DeviceMemory region = shared.memory();
    Tables tables =
        steps.together(
            "the tables of the ranks",
            () -> tables(device, config, timeouts, region, layout.words));
    CudaStream stream = tables.stream();
    DeviceMemory owners = tables.owners();
    KernelObservations observations = tables.observations();
    HostWords words = tables.words();
    rejoin.meet();
    CallLog calls =
        own(
            again
                ? rejoin.exchange(() -> CallLog.rejoin(participants, nodes, timeout))
                : CallLog.open(group, nodes, timeout));
    Members members = new Members(group);
    AbortNotices notices = own(new AbortNotices(group, members, words, Limits.masking(config)));
    if (!again) {
      notices.open(timeout);
    }
    FailureDiagnosis diagnosis =
        own(new FailureDiagnosis(words, members, group.rank(), config, calls, notices, timeouts));
    Completion completion = new Completion(words, stream, group.size(), config, diagnosis, notices);
    Staging staging = own(new Staging(group.rank(), device, completion));
    KernelFiles files = KernelFiles.of(device, internode);
    Kernels kernels = steps.together("the kernels", () -> own(new Kernels(files, config, !one)));
    rejoin.meet();
    // Maps the peers' regions: all ranks have cleared their words after this step.
    Peers peers =
        steps.together(
            "the regions of the peers",
            () -> own(new Peers(participants, nodes, tables.peers(), shared, timeout)));
    StaleRankFence fence =
        steps.together(
            "the words of the peers",
            () ->
                own(
                    new StaleRankFence(
                        new RemoteWords(device),
                        group.rank(),
                        group.size(),
                        peers::address,
                        members::isAlive,
                        words::gone,
                        System::nanoTime)));
    completion.attach(internode, fence);
    CudaContext context =
        new CudaContext(
            group,
            config,
            device,
            layout,
            nodes,
            new CudaContext.Resources(
                members,
                backend,
                region,
                peers,
                fence,
                internode,
                owners,
                words,
                observations,
                calls,
                notices,
                completion,
                kernels,
                staging,
                stream));
    CudaHandles handles =
        steps.together(
            "the memory of handles",
            () ->
                own(
                    new CudaHandles(
                        device,
                        new HandleLayout(
                            config,
                            group.rank(),
                            internode == null ? 0 : internode.partners(),
                            layout.receiveSlots),
                        completion,
                        group.rank(),
                        group.size())));
    CudaDispatchLayout counting =
        steps.together("the memory of layouts", () -> own(new CudaDispatchLayout(context)));
    LowLatency.Resources lowLatency =
        config.lowLatency().isPresent()
            ? lowLatency(context, steps, participants, rejoin, words)
            : null;
    CudaBuffer buffer =
        steps.together(
            "the memory of operations",
            () -> new CudaBuffer(context, handles, counting, lowLatency, this));
    Runnable unobserve = group.observable(() -> observations.snapshot().encode());
    own(unobserve::run);
    own(WindowRecorder.start(observations::snapshot));
    return buffer;
  }

  private CudaDevice device(Group group) {
    return own(CudaDevice.open(DeviceChoice.ordinal(group)));
  }

  private SymmetricRegion allocate(Backend backend, Nodes nodes, long bytes) {
    return own(
        nodes.spansHosts(backend.rank())
            ? backend.allocateAcrossHosts(bytes)
            : backend.allocate(bytes));
  }

  /** Memory of this rank alone, and the stream that has prepared it. */
  private record Tables(
      CudaStream stream,
      DeviceMemory owners,
      HostWords words,
      KernelObservations observations,
      DeviceMemory peers) {}

  private Tables tables(
      CudaDevice device,
      BufferConfig config,
      TimeoutLog timeouts,
      DeviceMemory region,
      long regionWords) {
    ExpertPlacement placement = Objects.requireNonNull(config.placement(), "settled placement");
    int ranks = placement.ranks();
    CudaStream stream = own(CudaStream.create(device));
    region.fill8(0, regionWords, (byte) 0, stream);
    stream.synchronize();
    DeviceMemory owners = owners(device, config);
    DeviceMemory peers = own(DeviceMemory.allocate(device, Peers.tableBytes(ranks)));
    HostWords words = own(new HostWords(device, ranks));
    KernelObservations observations = own(new KernelObservations(device, placement, timeouts));
    observations.attach(region);
    return new Tables(stream, owners, words, observations, peers);
  }

  /** Ranks of a node that combine in place have no memory for rows that would be pushed. */
  private static void requireBulkCopies(CudaDevice device, BufferConfig config) {
    if (Limits.combinesInPlaceOnly(config) && !device.properties().hasBulkCopies()) {
      throw new InvalidArgumentException(
          ErrorCode.CUDA_NO_BULK_COPIES,
          "highThroughput.combineInPlace",
          "true, with one layout, on " + device,
          "false where GPUs have no bulk copies",
          "leave it out, or use GPUs of compute capability 9.0 or later");
    }
  }

  private static void requireReadmission(Backend backend, boolean again) {
    if (again && !backend.refusesReadmission().isEmpty()) {
      throw new IllegalUseException(
          ErrorCode.READMISSION_UNSUPPORTED, "rejoin: " + backend.refusesReadmission());
    }
  }

  /**
   * Compiles what a returning rank needs as far as it is known before that rank meets the others,
   * which then do not wait for the compiler.
   */
  private static void prepareAhead(int device, BufferConfig config, int ranks) {
    if (config.ranksPerNode() == 0 || config.ranksPerNode() >= ranks) {
      prepareNode(device, config);
      return;
    }
    Map<String, KernelConstants> files = new LinkedHashMap<>(Kernels.files(config, true));
    files.putAll(Kernels.filesOfOneRank());
    Map<String, KernelConstants> ofAnyShape = new LinkedHashMap<>();
    String architecture = DeviceProperties.of(device).architecture();
    if (config.lowLatency().isPresent()) {
      String wire = WireChoice.of(config.backend(), config.wire());
      Reach reach = InternodeMemory.isMapped(wire) ? Reach.MAPPED : Reach.PUTS;
      files.putAll(LowLatencyKernels.files(device, config, reach));
      ofAnyShape.putAll(LowLatencyKernels.filesOfAnyShape(device, config, reach));
    }
    KernelCompiler.standard().prepare(files, architecture);
    KernelCompiler.standard().prepare(ofAnyShape, architecture);
  }

  private static void prepareNode(int device, BufferConfig config) {
    Map<String, KernelConstants> files = new LinkedHashMap<>(Kernels.files(config, false));
    files.putAll(Kernels.filesOfOneRank());
    Map<String, KernelConstants> ofAnyShape = new LinkedHashMap<>(Kernels.filesOfAnyShape(config));
    if (config.lowLatency().isPresent()) {
      files.putAll(LowLatencyKernels.files(device, config, Reach.NODE));
      ofAnyShape.putAll(LowLatencyKernels.filesOfAnyShape(device, config, Reach.NODE));
    }
    String architecture = DeviceProperties.of(device).architecture();
    KernelCompiler.standard().prepare(files, architecture);
    KernelCompiler.standard().prepare(ofAnyShape, architecture);
  }

  /** Compiles missing kernels: the transport between nodes decides which are needed. */
  private static void prepare(
      CudaDevice device, BufferConfig config, InternodeConnection internode) {
    Map<String, KernelConstants> files = new LinkedHashMap<>(Kernels.files(config, true));
    Map<String, KernelConstants> ofAnyShape = new LinkedHashMap<>();
    KernelFiles reaching = KernelFiles.of(device, internode);
    if (config.lowLatency().isPresent()) {
      Reach reach = Reach.of(internode);
      files.putAll(LowLatencyKernels.files(device.ordinal(), config, reach));
      ofAnyShape.putAll(LowLatencyKernels.filesOfAnyShape(device.ordinal(), config, reach));
    }
    reaching.prepare(files);
    if (reaching.transport() == null) {
      reaching.prepare(ofAnyShape);
    }
    new KernelFiles(device, null).prepare(Kernels.filesOfOneRank());
  }

  /** Collective. */
  private InternodeConnection internode(
      Participants participants,
      OpeningSteps steps,
      RejoinSteps rejoin,
      CudaDevice device,
      Backend backend,
      BufferConfig config,
      Nodes nodes,
      RegionLayout layout) {
    InternodeSizes sizes = CudaSizes.internode(config, nodes, layout);
    rejoin.meet();
    InternodeConnection internode =
        own(
            rejoin.exchange(
                () ->
                    InternodeConnection.open(participants, device, backend, config, nodes, sizes)));
    return steps.together(
        "the kernels",
        () -> {
          prepare(device, config, internode);
          return internode;
        });
  }

  /** Collective. */
  private LowLatency.Resources lowLatency(
      CudaContext context,
      OpeningSteps steps,
      Participants participants,
      RejoinSteps rejoin,
      HostWords words) {
    BufferConfig config = context.config;
    CudaDevice device = context.device;
    int local = context.placement.localExperts(context.rank);
    LowLatencyLayout layout = new LowLatencyLayout(config, context.nodes);
    LowLatencyMemory memory =
        steps.together(
            "the results of low-latency operations",
            () ->
                own(
                    new LowLatencyMemory(
                        context.rank, device, OutputShape.of(config, context.ranks, local))));
    SymmetricRegion region =
        steps.together(
            "the low-latency region of " + layout.bytes + " bytes that peers write",
            () -> allocate(context.backend, context.nodes, layout.bytes));
    DeviceMemory masks =
        steps.together(
            "the masks",
            () -> own(DeviceMemory.allocate(device, LowLatencyRegion.maskBytes(context.ranks))));
    DeviceMemory table =
        steps.together(
            "the table of low-latency regions",
            () -> own(DeviceMemory.allocate(device, Peers.tableBytes(context.ranks))));
    boolean linked =
        steps.together(
            "the words of low-latency operations",
            () -> {
              boolean here =
                  context.nodes.count() == 1
                      && LowLatencyKernels.wantsPackets(System.getenv())
                      && context.backend.world().isLinked();
              LowLatencyRegion.clear(region.memory(), masks, layout, here, context.stream);
              return here;
            });
    rejoin.meet();
    LowLatencyRegion part =
        steps.together(
            "the low-latency regions of the peers",
            () ->
                own(
                    new LowLatencyRegion(
                        participants,
                        context.nodes,
                        linked,
                        region,
                        masks,
                        table,
                        context.internode,
                        device,
                        layout,
                        words,
                        config.timeout())));
    LowLatencyKernels kernels =
        steps.together(
            "the kernels of low-latency operations",
            () ->
                own(
                    new LowLatencyKernels(
                        KernelFiles.of(device, context.internode),
                        config,
                        Reach.of(context.internode),
                        part.llPackets(),
                        local,
                        context.kernels.sharedBytes)));
    return new LowLatency.Resources(part, memory, kernels);
  }

  private DeviceMemory owners(CudaDevice device, BufferConfig config) {
    ExpertPlacement placement = Objects.requireNonNull(config.placement(), "settled placement");
    if (placement.maxLocalExperts() > MAX_EXPERTS_PER_RANK) {
      throw new InvalidArgumentException(
          ErrorCode.CUDA_EXPERTS_PER_RANK,
          "placement",
          placement.maxLocalExperts() + " experts on a rank",
          "at most " + MAX_EXPERTS_PER_RANK,
          "use more ranks");
    }
    int[] table = ownerTable(placement, new boolean[placement.ranks()]);
    int[] order = orderTable(placement);
    DeviceMemory memory = own(DeviceMemory.allocate(device, CudaSizes.ownersBytes(placement)));
    memory.copyFrom(0, MemorySegment.ofArray(table));
    memory.copyFrom((long) table.length * Integer.BYTES, MemorySegment.ofArray(order));
    return memory;
  }

  /**
   * Start of each rank's experts in a list of all experts, and that list, by rank and local number.
   */
  private static int[] orderTable(ExpertPlacement placement) {
    int ranks = placement.ranks();
    int[] order = new int[ranks + 1 + placement.experts()];
    for (int r = 0; r < ranks; r++) {
      order[r + 1] = order[r] + placement.localExperts(r);
    }
    for (int e = 0; e < placement.experts(); e++) {
      order[ranks + 1 + order[placement.rankOf(e)] + placement.localOf(e)] = e;
    }
    return order;
  }

  /** {@code rank << 16 | local number} by expert; rank 0xffff for experts of dead ranks. */
  static int[] ownerTable(ExpertPlacement placement, boolean[] gone) {
    int[] owners = new int[placement.experts()];
    for (int e = 0; e < owners.length; e++) {
      int rank = placement.rankOf(e);
      owners[e] = (gone[rank] ? NO_RANK : rank) << 16 | placement.localOf(e);
    }
    return owners;
  }

  /** Closes all resources. */
  @Override
  public void close() {
    owned.close();
  }
}
