package org.ep4j.cuda.engine;

import org.ep4j.DType;
import org.ep4j.DispatchOptions;
import org.ep4j.Layout;
import org.ep4j.Routing;
import org.ep4j.Sizing;
import org.ep4j.Tensor;
import org.ep4j.Tokens;
import org.ep4j.cuda.driver.CudaStream;
import org.jspecify.annotations.Nullable;

/**
 * Launches dispatches: fills in the parameters of the dispatch kernel and, for EXPERT_MAJOR, of the
 * kernel that expands rows after it. Arguments have been checked.
 */
final class Dispatcher {
  /** Warps that may push rows; the others write what goes with them. */
  private static final int MOST_WARPS = 10;

  private final CudaContext context;
  private final RegionLayout layout;
  private final KernelCall<DispatchField> dispatch;
  private final KernelCall<ExpandField> expand;
  private final ScaleColumns columns;

  /** Counts of the blocks of a launch, on the device. */
  private final long blockCounts;

  private final Stages.Memo dispatchStages;
  private final Stages.Memo expandStages;

  Dispatcher(CudaContext context) {
    this.context = context;
    layout = context.layout;
    dispatch = context.kernels.dispatch;
    expand = context.kernels.expand;
    columns = new ScaleColumns(context);
    int ranks = context.ranks;
    int experts = context.config.experts();
    int local = context.placement.localExperts(context.rank);
    int blocks = context.device.properties().multiprocessors();
    blockCounts =
        context.staging.memory(
            Staging.Place.BLOCK_COUNTS, (long) blocks * (ranks + experts) * Long.BYTES);
    long tiles = 1 + 2L * Kernels.WARPS;
    // What the kernels keep in shared memory beside their stages.
    long dispatchWords = Integer.BYTES * (experts + 5L * ranks + 1 + ranks * tiles);
    long expandWords = Integer.BYTES * (local + local * tiles);
    dispatchStages = new Stages.Memo(context.kernels.sharedBytes, dispatchWords);
    expandStages = new Stages.Memo(context.kernels.sharedBytes, expandWords);
    setConstants();
  }

  private void setConstants() {
    dispatch.set(DispatchField.PEERS, context.peers.table());
    dispatch.set(DispatchField.RANK, context.rank);
    dispatch.set(DispatchField.RANKS, context.ranks);
    dispatch.set(DispatchField.EXPERTS, context.config.experts());
    dispatch.set(DispatchField.LOCAL_EXPERTS, context.placement.localExperts(context.rank));
    dispatch.set(DispatchField.PLACEMENT, context.owners.address());
    dispatch.set(DispatchField.READY_OFFSET, layout.ready);
    dispatch.set(DispatchField.DONE_OFFSET, layout.done);
    dispatch.set(DispatchField.COUNTS_OFFSET, layout.counts);
    dispatch.set(DispatchField.STAGING_ROWS, layout.landingRows);
    dispatch.set(DispatchField.BLOCK_COUNTS, blockCounts);
    dispatch.set(DispatchField.TIMEOUT, context.config.timeout().toNanos());
    dispatch.set(DispatchField.RECORD, context.words.recordOnDevice());
    dispatch.set(DispatchField.HOST_ABORT, context.words.abortOnDevice());
    dispatch.set(DispatchField.COMPLETED, context.words.completedOnDevice());

    expand.set(ExpandField.CONTROL, context.region.address());
    expand.set(ExpandField.LOCAL_EXPERTS, context.placement.localExperts(context.rank));
    expand.set(ExpandField.FROM_ROWS, context.at(layout.landing.rows));
    expand.set(ExpandField.FROM_IDS, context.at(layout.landing.ids));
    expand.set(ExpandField.FROM_TOKENS, context.at(layout.landing.tokens));
    expand.set(ExpandField.FROM_SOURCES, context.at(layout.landing.sources));
    expand.set(ExpandField.ROWS, context.at(layout.received.rows));
    expand.set(ExpandField.SCALES, context.at(layout.received.scales));
    expand.set(ExpandField.FACTORS, context.at(layout.received.factors));
    expand.set(ExpandField.WEIGHTS, context.at(layout.received.weights));
    expand.set(ExpandField.TOKENS, context.at(layout.received.tokens));
    expand.set(ExpandField.SOURCES, context.at(layout.received.sources));
    expand.set(ExpandField.GROUP_COUNTS, blockCounts);
    expand.set(ExpandField.TIMEOUT, context.config.timeout().toNanos());
    expand.set(ExpandField.RECORD, context.words.recordOnDevice());
    expand.set(ExpandField.HOST_ABORT, context.words.abortOnDevice());
    expand.set(ExpandField.COMPLETED, context.words.completedOnDevice());
  }

  /** Fills a handle and sends the rows; returns once that is enqueued. */
  void dispatch(
      Tokens tokens,
      Routing routing,
      DispatchOptions options,
      CudaHandle handle,
      CudaStream stream) {
    Sizing sizing = options.sizing();
    handle.layout = options.layout();
    handle.tokens = routing.tokens();
    handle.topK = routing.topK();
    handle.weighted = routing.topkWeights() != null;
    handle.staticSizing = sizing.isStatic();
    handle.zeroPadding = options.zeroPadding();
    handle.scaleLayout = options.scaleLayout();
    handle.alignment = options.expertAlignment();
    handle.limit = sizing.isStatic() ? sizing.maxRows() : layout.capacity;
    Tensor ids = routing.topkIdx();
    dispatch.set(DispatchField.IDS, address(Staging.Place.IDS, ids, stream));
    dispatch.set(DispatchField.WIDE_IDS, ids.dtype() == DType.INT64);
    dispatch.set(
        DispatchField.WEIGHTS, address(Staging.Place.WEIGHTS, routing.topkWeights(), stream));
    send(tokens, handle, stream, false, handle.captured);
  }

  /** Sends rows along the ways of a handle; returns its ticket once that is enqueued. */
  long dispatchAgain(Tokens tokens, CudaHandle handle, CudaStream stream, boolean captured) {
    dispatch.set(DispatchField.IDS, 0);
    dispatch.set(DispatchField.WEIGHTS, 0);
    return send(tokens, handle, stream, true, captured);
  }

  private long send(
      Tokens tokens, CudaHandle handle, CudaStream stream, boolean cached, boolean captured) {
    boolean flat = handle.layout == Layout.FLAT;
    Tensor x = tokens.x();
    long rowBytes = x.dtype().bytes(context.config.hidden());
    Tensor scales = tokens.scales();
    long scaleBytes = scales == null ? 0 : scales.dtype().bytes(scales.size(1));
    RegionLayout.Arrays to = flat ? layout.received : layout.landing;
    HandleLayout at = handle.at();
    dispatch.set(DispatchField.TOKENS, handle.tokens);
    dispatch.set(DispatchField.TOP_K, handle.topK);
    dispatch.set(DispatchField.X, address(Staging.Place.X, x, stream));
    dispatch.set(DispatchField.ROW_BYTES, rowBytes);
    dispatch.set(DispatchField.SCALES, address(Staging.Place.SCALES, scales, stream));
    dispatch.set(DispatchField.SCALE_BYTES, scaleBytes);
    dispatch.set(
        DispatchField.FACTORS, address(Staging.Place.FACTORS, tokens.globalScales(), stream));
    Tensor turned = columns.prepare(handle, scales);
    // From here on the ticket counts as given to the GPU: staging waits for all that are.
    long ticket = context.completion.next(captured);
    if (!cached) {
      handle.ticket = ticket;
    }
    dispatch.set(DispatchField.WAYS, handle.onDevice(at.ways));
    dispatch.set(DispatchField.LISTS, handle.onDevice(at.lists));
    dispatch.set(DispatchField.MATRIX, handle.onDevice(at.matrix));
    dispatch.set(DispatchField.CACHED, cached);
    dispatch.set(DispatchField.ROWS_OFFSET, to.rows);
    dispatch.set(DispatchField.SCALES_OFFSET, to.scales);
    dispatch.set(DispatchField.FACTORS_OFFSET, to.factors);
    dispatch.set(DispatchField.IDS_OFFSET, to.ids);
    dispatch.set(DispatchField.WEIGHTS_OFFSET, to.weights);
    dispatch.set(DispatchField.TOKENS_OFFSET, to.tokens);
    dispatch.set(DispatchField.SOURCES_OFFSET, to.sources);
    dispatch.set(DispatchField.ALIGNMENT, handle.alignment);
    dispatch.set(DispatchField.LIMIT, handle.limit);
    dispatch.set(DispatchField.EXPERT_MAJOR, !flat);
    dispatch.set(DispatchField.FILL, handle.staticSizing);
    dispatch.set(DispatchField.TICKET, flat && turned == null ? ticket : 0);
    dispatch.set(DispatchField.COUNTS_TICKET, handle.ticket);
    dispatch.set(DispatchField.TOTALS, handle.hostOnDevice(at.totals));
    dispatch.set(DispatchField.RANK_OFFSETS, handle.hostOnDevice(at.rankOffsets));
    dispatch.set(DispatchField.EXPERT_OFFSETS, handle.hostOnDevice(at.expertOffsets));
    dispatch.set(DispatchField.RECEIVED, handle.hostOnDevice(at.received));
    dispatch.set(DispatchField.ALIGNED, handle.hostOnDevice(at.aligned));
    dispatch.set(DispatchField.FLAT_ROWS, handle.onDevice(at.flatRows));
    dispatch.set(DispatchField.GROUP_STARTS, handle.onDevice(at.groupStarts));
    dispatch.set(DispatchField.GROUP_ROWS, handle.onDevice(at.groupRows));
    Stages stages = dispatchStages.of(rowBytes, MOST_WARPS);
    dispatch.set(DispatchField.PUSH_WARPS, stages.warps());
    dispatch.set(DispatchField.STAGE_BYTES, stages.stageBytes());
    dispatch.launch(context.sms(), stages.bytes(), stream.handle());
    if (!flat) {
      expand(tokens, handle, stream, cached, turned == null ? ticket : 0, rowBytes, scaleBytes);
    }
    if (turned != null) {
      columns.enqueue(handle, turned, ticket, stream);
    }
    return ticket;
  }

  private void expand(
      Tokens tokens,
      CudaHandle handle,
      CudaStream stream,
      boolean cached,
      long ticket,
      long rowBytes,
      long scaleBytes) {
    HandleLayout at = handle.at();
    expand.set(ExpandField.TOP_K, handle.topK);
    expand.set(ExpandField.FLAT_ROWS, handle.onDevice(at.flatRows));
    expand.set(ExpandField.GROUP_STARTS, handle.onDevice(at.groupStarts));
    expand.set(ExpandField.GROUP_ROWS, handle.onDevice(at.groupRows));
    expand.set(ExpandField.PLACES, handle.places());
    expand.set(ExpandField.CACHED, cached);
    expand.set(
        ExpandField.FROM_SCALES, tokens.scales() == null ? 0 : context.at(layout.landing.scales));
    expand.set(
        ExpandField.FROM_FACTORS,
        tokens.globalScales() == null ? 0 : context.at(layout.landing.factors));
    expand.set(
        ExpandField.FROM_WEIGHTS,
        cached || !handle.weighted ? 0 : context.at(layout.landing.weights));
    expand.set(ExpandField.ROW_BYTES, rowBytes);
    expand.set(ExpandField.SCALE_BYTES, scaleBytes);
    expand.set(ExpandField.LIMIT, handle.limit);
    expand.set(ExpandField.FILL, handle.staticSizing);
    expand.set(ExpandField.ZERO, handle.zeroPadding);
    expand.set(ExpandField.TICKET, ticket);
    Stages stages = expandStages.of(rowBytes, MOST_WARPS);
    expand.set(ExpandField.PUSH_WARPS, stages.warps());
    expand.set(ExpandField.STAGE_BYTES, stages.stageBytes());
    expand.launch(context.sms(), stages.bytes(), stream.handle());
  }

  /** Peers write into the region while this rank reads: what lies there is copied out first. */
  private long address(Staging.Place place, @Nullable Tensor tensor, CudaStream stream) {
    if (tensor != null
        && tensor.onDevice()
        && tensor.address() >= context.region.address()
        && tensor.address() < context.region.address() + context.region.bytes()) {
      return context.staging.copy(place, tensor, stream);
    }
    return context.staging.address(place, tensor, stream);
  }
}
