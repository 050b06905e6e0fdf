package org.ep4j.cuda.engine.throughput;

import org.ep4j.DispatchOptions;
import org.ep4j.Tokens;
import org.ep4j.config.Layout;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.engine.context.CudaContext;
import org.ep4j.cuda.engine.context.ExpertIds;
import org.ep4j.cuda.engine.context.RegionLayout;
import org.ep4j.cuda.engine.context.RowMetadataSize;
import org.ep4j.cuda.engine.context.Staging;
import org.ep4j.cuda.engine.launch.KernelCall;
import org.ep4j.cuda.engine.launch.Kernels;
import org.ep4j.cuda.struct.Control;
import org.ep4j.cuda.struct.DispatchParameters;
import org.ep4j.engine.Limits;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;
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
  private static final long SLOT_ARRAYS = 9;

  private final CudaContext context;
  private final RegionLayout layout;
  private final KernelCall<DispatchParameters> flat;
  private final KernelCall<DispatchParameters> experts;
  private final Stages.Cache flatStages;
  private final Stages.Cache expertStages;
  private final ScaleTranspose scaleTranspose;
  private final ScaleRows scaleRows;
  private final ExpertIds expertIds;

  /** FLAT dispatches between nodes; null with one node. */
  private final @Nullable InternodeDispatcher internode;

  private final CountingTiles tiles;

  Dispatcher(CudaContext context) {
    this.context = context;
    layout = context.layout;
    flat = context.kernels.dispatch;
    experts = context.kernels.expertDispatch;
    scaleTranspose = new ScaleTranspose(context);
    scaleRows = new ScaleRows(context);
    long epoch = context.region.address() + Control.WORDS.epoch.offset();
    expertIds = new ExpertIds(context, epoch, 0, Limits.tokens(context.config));
    int ranks = context.ranks;
    int all = context.config.experts();
    int local = context.placement.localExperts(context.rank);
    // Shared memory of the kernels besides their stages.
    long slotWords = SLOT_ARRAYS * ranks + 1;
    long flatWords = slotWords + all + ranks * CountingTiles.words(Kernels.WARPS);
    long groupWords = slotWords + 2L * (all + local) + 1;
    long groupBytes =
        (groupWords * Integer.BYTES + STAGE_ALIGNMENT - 1) / STAGE_ALIGNMENT * STAGE_ALIGNMENT;
    flatStages = new Stages.Cache(context.kernels.sharedBytes, flatWords * Integer.BYTES);
    expertStages = new Stages.Cache(context.kernels.sharedBytes, groupBytes);
    internode =
        context.internode == null
            ? null
            : new InternodeDispatcher(context, flatWords * Integer.BYTES, groupBytes);
    long scheduleBytes = internode == null ? 0 : internode.scheduleBytes;
    tiles = CountingTiles.of(context.kernels.sharedBytes, groupBytes + scheduleBytes, ranks, all);
    setConstants(flat.parameters);
    setConstants(experts.parameters);
    setExpertConstants();
    if (internode != null) {
      internode.setConstants(flat.parameters);
      internode.setConstants(experts.parameters);
    }
  }

  private void setConstants(DispatchParameters p) {
    int blocks = context.device.properties().multiprocessors();
    p.blockCounts.set(
        context.staging.words(
            Staging.Buffer.BLOCK_COUNTS,
            OperationMemory.blockCounts(context.config, blocks),
            context.stream));
    p.peers.set(context.peers.table());
    p.rank.set(context.rank);
    p.ranks.set(context.ranks);
    p.experts.set(context.config.experts());
    p.localExperts.set(context.placement.localExperts(context.rank));
    p.placement.set(context.owners.address());
    p.order.set(context.owners.address() + (long) context.config.experts() * Integer.BYTES);
    p.readyOffset.set(layout.ready);
    p.doneOffset.set(layout.done);
    p.countsOffset.set(layout.counts);
    p.rowsOffset.set(layout.received.rows);
    p.scalesOffset.set(layout.received.scales);
    p.factorsOffset.set(layout.received.factors);
    p.idsOffset.set(layout.received.ids);
    p.weightsOffset.set(layout.received.weights);
    p.tokensOffset.set(layout.received.tokens);
    p.sourcesOffset.set(layout.received.sources);
    p.timeout.set(context.config.timeout().toNanos());
    p.record.set(context.words.recordOnDevice());
    p.hostAbort.set(context.words.abortOnDevice());
    p.receipt.completed.set(context.words.completedOnDevice());
  }

  private void setExpertConstants() {
    DispatchParameters p = experts.parameters;
    p.arrivalsOffset.set(layout.arrivals);
    p.metadataOffset.set(layout.returnBuffer);
    p.receiveSlots.set(layout.receiveSlots);
    p.tileWarps.set(tiles.warps());
  }

  /** Fills a handle and sends the rows; returns after enqueueing. */
  void dispatch(
      Layout rowOrder,
      Tokens tokens,
      Routing routing,
      DispatchOptions options,
      CudaHandle handle,
      CudaStream stream) {
    handle.describe(rowOrder, routing, options, context.experts, layout.capacity);
    Tensor ids = routing.topkIdx();
    KernelCall<DispatchParameters> call = kernel(handle);
    DispatchParameters p = call.parameters;
    long given = address(Staging.Buffer.IDS, ids, stream);
    p.weights.set(address(Staging.Buffer.WEIGHTS, routing.topkWeights(), stream));
    boolean translated = !context.experts.isOfBuffer(handle.experts);
    p.ids.set(
        translated
            ? expertIds.enqueue(Staging.Buffer.EXPERT_IDS, ids, given, handle.experts, stream)
            : given);
    p.wideIds.set(translated || ids.dtype() == DType.INT64);
    Tensor logical = routing.logicalIdx();
    if (logical != null) {
      p.logicalIds.set(address(Staging.Buffer.LOGICAL_IDS, logical, stream));
      p.wideLogicalIds.set(logical.dtype() == DType.INT64);
    } else {
      // Ids of the buffer may have another order than those of the call.
      p.logicalIds.set(translated ? given : 0);
      p.wideLogicalIds.set(ids.dtype() == DType.INT64);
    }
    send(tokens, handle, stream, false, handle.captured);
  }

  /** Sends rows along the routes of a handle; returns the ticket after enqueueing. */
  long dispatchAgain(Tokens tokens, CudaHandle handle, CudaStream stream, boolean captured) {
    KernelCall<DispatchParameters> call = kernel(handle);
    DispatchParameters p = call.parameters;
    p.ids.setNull();
    p.weights.setNull();
    return send(tokens, handle, stream, true, captured);
  }

  private KernelCall<DispatchParameters> kernel(CudaHandle handle) {
    return handle.layout == Layout.FLAT ? flat : experts;
  }

  private long send(
      Tokens tokens, CudaHandle handle, CudaStream stream, boolean cached, boolean captured) {
    KernelCall<DispatchParameters> call = kernel(handle);
    DispatchParameters p = call.parameters;
    Tensor x = tokens.x();
    long rowBytes = x.dtype().bytes(x.size(1));
    Tensor scales = tokens.scales();
    long scaleBytes = scales == null ? 0 : scales.dtype().bytes(tokens.scalesPerRow());
    p.tokens.set(handle.tokens);
    p.topK.set(handle.topK);
    call.choose(handle.topK == context.config.topK());
    p.x.set(address(Staging.Buffer.X, x, stream));
    p.rowBytes.set(rowBytes);
    long given = address(Staging.Buffer.SCALES, scales, stream);
    p.scaleBytes.set(scaleBytes);
    p.factors.set(address(Staging.Buffer.FACTORS, tokens.globalScales(), stream));
    boolean transposes = scaleTranspose.prepare(handle, tokens);
    // Behind the copies of host tensors, which wait for enqueued operations.
    p.scales.set(
        scales != null && tokens.scaleLayout() == ScaleLayout.COLUMN_MAJOR
            ? scaleRows.enqueue(tokens, scales, given, stream)
            : given);
    // From here on the ticket counts as enqueued: staging waits for all enqueued operations.
    long ticket = context.completion.next(captured);
    if (!cached) {
      handle.ticket = ticket;
    }
    setHandle(p, handle);
    p.cached.set(cached);
    p.receipt.ticket.set(transposes ? 0 : ticket);
    boolean launched = false;
    try {
      launch(call, handle, cached, rowBytes, scaleBytes, stream);
      if (transposes) {
        scaleTranspose.enqueue(handle, ticket, stream);
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
      KernelCall<DispatchParameters> call,
      CudaHandle handle,
      boolean cached,
      long rowBytes,
      long scaleBytes,
      CudaStream stream) {
    DispatchParameters p = call.parameters;
    if (internode != null && call == flat) {
      internode.launchFlat(call, handle, cached, rowBytes, scaleBytes, stream);
    } else if (call == flat) {
      long piece = Stages.pieceOf(rowBytes, FLAT_PIECE);
      int full = context.sms() > FEW_SMS ? FLAT_WARPS : FLAT_WARPS_OF_FEW;
      int warps = Math.clamp(full * FLAT_PIECE / piece, full, MAX_WARPS);
      Stages stages = flatStages.of(piece, 0, warps);
      p.pushBlocks.set(context.sms());
      launch(call, stages, stages.bytes(), stream);
    } else {
      long metadataBytes = RowMetadataSize.bytes(scaleBytes, handle.topK, cached);
      int blocks = pushBlocks(context.sms());
      boolean eager = blocks == MAX_PUSH_BLOCKS;
      int warps = eager ? EAGER_WARPS : MAX_WARPS;
      p.slotRows.set(handle.slotRows());
      p.slotWeights.set(handle.slotWeights());
      p.entries.set(handle.entries());
      p.keptIds.set(handle.keptIds());
      p.keptWeights.set(handle.keptWeights());
      p.zero.set(handle.zeroPadding);
      p.metadataBytes.set(metadataBytes);
      if (internode != null) {
        p.eager.set(false);
        internode.launchExperts(call, handle, blocks, rowBytes, metadataBytes, tiles, stream);
        return;
      }
      Stages stages = expertStages.of(rowBytes, metadataBytes, warps);
      p.pushBlocks.set(blocks);
      p.eager.set(eager);
      launch(call, stages, Math.max(stages.bytes(), tiles.bytes()), stream);
    }
  }

  /** Half of the blocks send, up to the number that saturates a link; the others copy. */
  private static int pushBlocks(int sms) {
    return Math.min(MAX_PUSH_BLOCKS, Math.ceilDiv(sms, 2));
  }

  private static void setHandle(DispatchParameters p, CudaHandle handle) {
    HandleLayout at = handle.at();
    p.routes.set(handle.onDevice(at.routes));
    p.lists.set(handle.onDevice(at.lists));
    p.matrix.set(handle.onDevice(at.matrix));
    p.flatRows.set(handle.onDevice(at.flatRows));
    p.groupStarts.set(handle.onDevice(at.groupStarts));
    p.groupRows.set(handle.onDevice(at.groupRows));
    p.targets.set(handle.onDevice(at.targets));
    p.alignment.set(handle.alignment);
    p.limit.set(handle.limit);
    p.fixedRows.set(handle.staticSizing);
    p.countsTicket.set(handle.ticket);
    p.totals.set(handle.hostOnDevice(at.totals));
    p.rankOffsets.set(handle.hostOnDevice(at.rankOffsets));
    p.expertOffsets.set(handle.hostOnDevice(at.expertOffsets));
    p.received.set(handle.hostOnDevice(at.received));
    p.aligned.set(handle.hostOnDevice(at.aligned));
  }

  private void launch(
      KernelCall<DispatchParameters> call, Stages stages, int sharedBytes, CudaStream stream) {
    DispatchParameters p = call.parameters;
    p.pushWarps.set(stages.warps());
    p.stageBytes.set(stages.stageBytes());
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
