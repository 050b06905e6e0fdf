package org.ep4j.cuda.engine.throughput;

import org.ep4j.DType;
import org.ep4j.DispatchOptions;
import org.ep4j.ErrorCode;
import org.ep4j.InvalidArgumentException;
import org.ep4j.Layout;
import org.ep4j.Routing;
import org.ep4j.Sizing;
import org.ep4j.Tensor;
import org.ep4j.Tokens;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.engine.context.CudaContext;
import org.ep4j.cuda.engine.context.RegionLayout;
import org.ep4j.cuda.engine.context.RowMetadataSize;
import org.ep4j.cuda.engine.context.Staging;
import org.ep4j.cuda.engine.launch.DispatchField;
import org.ep4j.cuda.engine.launch.KernelCall;
import org.ep4j.cuda.engine.launch.Kernels;
import org.jspecify.annotations.Nullable;

/** Launches dispatches: writes the parameters of the layout's kernel. The arguments are valid. */
final class Dispatcher {
  /** Largest number of warps that push rows; the other warps of FLAT write row metadata. */
  private static final int MAX_WARPS = 10;

  /** Largest piece of a FLAT row in bytes. */
  private static final long FLAT_PIECE = 4096;

  /**
   * Warps of a block that saturate the links with pieces of that length; more warps make dispatches
   * slower. Up to {@code FEW_SMS} blocks need more warps each.
   */
  private static final int FLAT_WARPS = 5;

  private static final int FLAT_WARPS_OF_FEW = 8;
  private static final int FEW_SMS = 16;

  /** Largest number of sending blocks in EXPERT_MAJOR. */
  private static final int MAX_PUSH_BLOCKS = 40;

  /**
   * Warps of each block when that many blocks send. They saturate the links with one piece each, so
   * every warp can wait until its piece is written, and receivers learn of the piece two pieces
   * earlier.
   */
  private static final int EAGER_WARPS = 5;

  /** Alignment of the first array after the words in the kernels' shared memory. */
  private static final int STAGE_ALIGNMENT = 128;

  /** Arrays of one word per rank plus one word, as {@code RankSlots} in layout.cuh. */
  private static final long SLOT_ARRAYS = 8;

  private final CudaContext context;
  private final RegionLayout layout;
  private final KernelCall<DispatchField> flat;
  private final KernelCall<DispatchField> experts;
  private final Stages.Cache flatStages;
  private final Stages.Cache expertStages;
  private final ScaleTranspose scaleTranspose;

  /** FLAT dispatches between nodes; null with one node. */
  private final @Nullable InternodeDispatcher internode;

  /** Warps that count tokens for EXPERT_MAJOR, and their shared memory. */
  private final int tileWarps;

  private final int tileBytes;

  Dispatcher(CudaContext context) {
    this.context = context;
    layout = context.layout;
    flat = context.kernels.dispatch;
    experts = context.kernels.expertDispatch;
    scaleTranspose = new ScaleTranspose(context);
    int ranks = context.ranks;
    int all = context.config.experts();
    int local = context.placement.localExperts(context.rank);
    // Shared memory of the kernels besides their stages.
    long slotWords = SLOT_ARRAYS * ranks + 1;
    long flatWords = slotWords + all + ranks * tileWords(Kernels.WARPS);
    long groupWords = slotWords + 2L * (all + local) + 1;
    long groupBytes =
        (groupWords * Integer.BYTES + STAGE_ALIGNMENT - 1) / STAGE_ALIGNMENT * STAGE_ALIGNMENT;
    flatStages = new Stages.Cache(context.kernels.sharedBytes, flatWords * Integer.BYTES);
    expertStages = new Stages.Cache(context.kernels.sharedBytes, groupBytes);
    internode =
        context.internode == null
            ? null
            : new InternodeDispatcher(context, flatWords * Integer.BYTES, groupBytes);
    int warps = Kernels.WARPS;
    while (groupBytes + tileBytes(warps) > context.kernels.sharedBytes) {
      if (warps == 1) {
        throw new InvalidArgumentException(
            ErrorCode.CUDA_EXPERT_COUNTERS,
            "experts",
            String.valueOf(all),
            "few enough that their counters fit into the shared memory of a block",
            "use fewer experts or more ranks");
      }
      warps /= 2;
    }
    tileWarps = warps;
    tileBytes = (int) (groupBytes + tileBytes(warps));
    setConstants(flat);
    setConstants(experts);
    setExpertConstants();
    if (internode != null) {
      internode.setConstants(flat);
      internode.setConstants(experts);
    }
  }

  /** Words of a tile per key, as in tiles.cuh. */
  private static long tileWords(int warps) {
    return 1 + 2L * warps;
  }

  private long tileBytes(int warps) {
    return (context.ranks + context.config.experts()) * tileWords(warps) * Integer.BYTES;
  }

  private void setConstants(KernelCall<DispatchField> call) {
    long counters = context.ranks + (long) context.config.experts();
    long blocks = context.device.properties().multiprocessors();
    call.set(
        DispatchField.BLOCK_COUNTS,
        context.staging.words(
            Staging.Buffer.BLOCK_COUNTS, blocks * counters * Long.BYTES, context.stream));
    call.set(DispatchField.PEERS, context.peers.table());
    call.set(DispatchField.RANK, context.rank);
    call.set(DispatchField.RANKS, context.ranks);
    call.set(DispatchField.EXPERTS, context.config.experts());
    call.set(DispatchField.LOCAL_EXPERTS, context.placement.localExperts(context.rank));
    call.set(DispatchField.PLACEMENT, context.owners.address());
    call.set(DispatchField.READY_OFFSET, layout.ready);
    call.set(DispatchField.DONE_OFFSET, layout.done);
    call.set(DispatchField.COUNTS_OFFSET, layout.counts);
    call.set(DispatchField.ROWS_OFFSET, layout.received.rows);
    call.set(DispatchField.SCALES_OFFSET, layout.received.scales);
    call.set(DispatchField.FACTORS_OFFSET, layout.received.factors);
    call.set(DispatchField.IDS_OFFSET, layout.received.ids);
    call.set(DispatchField.WEIGHTS_OFFSET, layout.received.weights);
    call.set(DispatchField.TOKENS_OFFSET, layout.received.tokens);
    call.set(DispatchField.SOURCES_OFFSET, layout.received.sources);
    call.set(DispatchField.TIMEOUT, context.config.timeout().toNanos());
    call.set(DispatchField.RECORD, context.words.recordOnDevice());
    call.set(DispatchField.HOST_ABORT, context.words.abortOnDevice());
    call.set(DispatchField.COMPLETED, context.words.completedOnDevice());
  }

  private void setExpertConstants() {
    long choices = (long) context.config.maxTokens() * context.config.topK();
    experts.set(DispatchField.ARRIVALS_OFFSET, layout.arrivals);
    experts.set(DispatchField.METADATA_OFFSET, layout.returnBuffer);
    experts.set(DispatchField.RECEIVE_SLOTS, layout.receiveSlots);
    experts.set(
        DispatchField.ENTRIES,
        context.staging.memory(Staging.Buffer.ENTRIES, choices * Long.BYTES));
    experts.set(
        DispatchField.ORDER,
        context.owners.address() + (long) context.config.experts() * Integer.BYTES);
    experts.set(DispatchField.TILE_WARPS, tileWarps);
  }

  /** Fills a handle and sends the rows; returns after enqueueing. */
  void dispatch(
      Layout rowOrder,
      Tokens tokens,
      Routing routing,
      DispatchOptions options,
      CudaHandle handle,
      CudaStream stream) {
    Sizing sizing = options.sizing();
    handle.layout = rowOrder;
    handle.tokens = routing.tokens();
    handle.topK = routing.topK();
    handle.weighted = routing.topkWeights() != null;
    handle.staticSizing = sizing.isStatic();
    handle.zeroPadding = options.zeroPadding();
    handle.scaleLayout = options.scaleLayout();
    handle.alignment = options.expertAlignment();
    handle.limit = sizing.isStatic() ? sizing.maxRows() : layout.capacity;
    Tensor ids = routing.topkIdx();
    KernelCall<DispatchField> call = kernel(handle);
    call.set(DispatchField.IDS, address(Staging.Buffer.IDS, ids, stream));
    call.set(DispatchField.WIDE_IDS, ids.dtype() == DType.INT64);
    call.set(DispatchField.WEIGHTS, address(Staging.Buffer.WEIGHTS, routing.topkWeights(), stream));
    send(tokens, handle, stream, false, handle.captured);
  }

  /** Sends rows along the routes of a handle; returns the ticket after enqueueing. */
  long dispatchAgain(Tokens tokens, CudaHandle handle, CudaStream stream, boolean captured) {
    KernelCall<DispatchField> call = kernel(handle);
    call.set(DispatchField.IDS, 0);
    call.set(DispatchField.WEIGHTS, 0);
    return send(tokens, handle, stream, true, captured);
  }

  private KernelCall<DispatchField> kernel(CudaHandle handle) {
    return handle.layout == Layout.FLAT ? flat : experts;
  }

  private long send(
      Tokens tokens, CudaHandle handle, CudaStream stream, boolean cached, boolean captured) {
    KernelCall<DispatchField> call = kernel(handle);
    Tensor x = tokens.x();
    long rowBytes = x.dtype().bytes(context.config.hidden());
    Tensor scales = tokens.scales();
    long scaleBytes = scales == null ? 0 : scales.dtype().bytes(scales.size(1));
    call.set(DispatchField.TOKENS, handle.tokens);
    call.set(DispatchField.TOP_K, handle.topK);
    call.set(DispatchField.X, address(Staging.Buffer.X, x, stream));
    call.set(DispatchField.ROW_BYTES, rowBytes);
    call.set(DispatchField.SCALES, address(Staging.Buffer.SCALES, scales, stream));
    call.set(DispatchField.SCALE_BYTES, scaleBytes);
    call.set(DispatchField.FACTORS, address(Staging.Buffer.FACTORS, tokens.globalScales(), stream));
    Tensor transposed = scaleTranspose.prepare(handle, scales);
    // From here on the ticket counts as enqueued: staging waits for all enqueued operations.
    long ticket = context.completion.next(captured);
    if (!cached) {
      handle.ticket = ticket;
    }
    setHandle(call, handle);
    call.set(DispatchField.CACHED, cached);
    call.set(DispatchField.TICKET, transposed == null ? ticket : 0);
    boolean launched = false;
    try {
      launch(call, handle, cached, rowBytes, scaleBytes, stream);
      if (transposed != null) {
        scaleTranspose.enqueue(handle, transposed, ticket, stream);
      }
      launched = true;
    } finally {
      if (!launched) {
        context.completion.withdraw(ticket);
      }
    }
    return ticket;
  }

  private void launch(
      KernelCall<DispatchField> call,
      CudaHandle handle,
      boolean cached,
      long rowBytes,
      long scaleBytes,
      CudaStream stream) {
    if (internode != null && call == flat) {
      internode.launchFlat(call, handle, cached, rowBytes, scaleBytes, stream);
    } else if (call == flat) {
      long piece = Stages.pieceOf(rowBytes, FLAT_PIECE);
      int full = context.sms() > FEW_SMS ? FLAT_WARPS : FLAT_WARPS_OF_FEW;
      int warps = Math.clamp(full * FLAT_PIECE / piece, full, MAX_WARPS);
      Stages stages = flatStages.of(piece, 0, warps);
      call.set(DispatchField.PUSH_BLOCKS, context.sms());
      launch(call, stages, stages.bytes(), stream);
    } else {
      long metadataBytes = RowMetadataSize.bytes(scaleBytes, handle.topK, cached);
      int blocks = pushBlocks(context.sms());
      boolean eager = blocks == MAX_PUSH_BLOCKS;
      int warps = eager ? EAGER_WARPS : MAX_WARPS;
      call.set(DispatchField.SLOT_ROWS, handle.slotRows());
      call.set(DispatchField.ZERO, handle.zeroPadding);
      call.set(DispatchField.METADATA_BYTES, metadataBytes);
      if (internode != null) {
        call.set(DispatchField.EAGER, false);
        internode.launchExperts(call, handle, blocks, rowBytes, metadataBytes, tileBytes, stream);
        return;
      }
      Stages stages = expertStages.of(rowBytes, metadataBytes, warps);
      call.set(DispatchField.PUSH_BLOCKS, blocks);
      call.set(DispatchField.EAGER, eager);
      launch(call, stages, Math.max(stages.bytes(), tileBytes), stream);
    }
  }

  /** Half of the blocks send, up to the number that saturates a link; the others copy. */
  private static int pushBlocks(int sms) {
    return Math.min(MAX_PUSH_BLOCKS, Math.ceilDiv(sms, 2));
  }

  private static void setHandle(KernelCall<DispatchField> call, CudaHandle handle) {
    HandleLayout at = handle.at();
    call.set(DispatchField.ROUTES, handle.onDevice(at.routes));
    call.set(DispatchField.LISTS, handle.onDevice(at.lists));
    call.set(DispatchField.MATRIX, handle.onDevice(at.matrix));
    call.set(DispatchField.FLAT_ROWS, handle.onDevice(at.flatRows));
    call.set(DispatchField.GROUP_STARTS, handle.onDevice(at.groupStarts));
    call.set(DispatchField.GROUP_ROWS, handle.onDevice(at.groupRows));
    call.set(DispatchField.TARGETS, handle.onDevice(at.targets));
    call.set(DispatchField.ALIGNMENT, handle.alignment);
    call.set(DispatchField.LIMIT, handle.limit);
    call.set(DispatchField.FILL, handle.staticSizing);
    call.set(DispatchField.COUNTS_TICKET, handle.ticket);
    call.set(DispatchField.TOTALS, handle.hostOnDevice(at.totals));
    call.set(DispatchField.RANK_OFFSETS, handle.hostOnDevice(at.rankOffsets));
    call.set(DispatchField.EXPERT_OFFSETS, handle.hostOnDevice(at.expertOffsets));
    call.set(DispatchField.RECEIVED, handle.hostOnDevice(at.received));
    call.set(DispatchField.ALIGNED, handle.hostOnDevice(at.aligned));
  }

  private void launch(
      KernelCall<DispatchField> call, Stages stages, int sharedBytes, CudaStream stream) {
    call.set(DispatchField.PUSH_WARPS, stages.warps());
    call.set(DispatchField.STAGE_BYTES, stages.stageBytes());
    call.launch(context.sms(), sharedBytes, stream.handle());
  }

  /**
   * Peers write into the region while this rank reads: tensors in the region are copied out first.
   */
  private long address(Staging.Buffer buffer, @Nullable Tensor tensor, CudaStream stream) {
    if (tensor != null
        && tensor.onDevice()
        && tensor.address() >= context.region.address()
        && tensor.address() < context.region.address() + context.region.bytes()) {
      return context.staging.copy(buffer, tensor, stream);
    }
    return context.staging.address(buffer, tensor, stream);
  }
}
