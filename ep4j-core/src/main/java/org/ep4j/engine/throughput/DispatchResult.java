package org.ep4j.engine.throughput;

import java.util.Arrays;
import java.util.Objects;
import java.util.Optional;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.FlatDispatch;
import org.ep4j.GroupedDispatch;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.engine.Arguments;
import org.ep4j.engine.Limits;
import org.ep4j.engine.TensorMemory;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.ReceiveOverflowException;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * The result of a dispatch: views of the arrays into which the engine delivers.
 *
 * @param <E> the engine's end of an operation
 */
public abstract sealed class DispatchResult<E extends ResultEnd> extends LentResult<E>
    implements Dispatch {
  /** What a dispatch delivers, by row. */
  public enum Array {
    /** Rows of the payload. */
    ROWS,
    /** Their scales. */
    SCALES,
    /** The scales in column-major order. */
    SCALE_COLUMNS,
    /** Factors of NVFP4 rows. */
    GLOBAL_SCALES,
    /** Choices of FLAT rows. */
    CHOICES,
    /** Weights of the choices, or of EXPERT_MAJOR rows. */
    WEIGHTS,
    /** Number of each row's token. */
    SOURCE_TOKENS,
    /** Source rank of each row. */
    SOURCE_RANKS,
    /** Rows that peers read in a combine, unless experts write them over the received rows. */
    COMBINE_INPUT
  }

  /** What a dispatch counts. */
  public enum Count {
    /** Rows of each local expert with padding. */
    ALIGNED,
    /** Rows of each local expert. */
    RECEIVED,
    /** First row of each local expert, and the end. */
    EXPERT_OFFSETS,
    /** First row of each source rank, and the end. */
    RANK_OFFSETS
  }

  /** Where one buffer delivers. */
  public interface Delivery {
    /** Memory of an array. */
    TensorMemory memory(Array array);

    /**
     * Address of an array.
     *
     * @param rowBytes bytes of a row; the engine allocates some arrays on first use
     */
    long address(Array array, long rowBytes);

    /**
     * Whether the system provides memory only when it is touched. Then an array that callers write,
     * or read as a whole, is required first: experts may be native code, which a page that is
     * missing would end.
     */
    default boolean isLazy() {
      return false;
    }

    /**
     * Makes the first bytes of an array exist.
     *
     * @throws org.ep4j.error.Ep4jException if the system has no memory left
     */
    default void require(Array array, long bytes) {}

    /** Memory of the counts of a dispatch. */
    TensorMemory memory(PooledHandle handle);

    /** Address of some counts of a dispatch. */
    long address(Count count, PooledHandle handle);
  }

  /**
   * Sizes of one buffer on one rank.
   *
   * @param hidden largest number of elements of a row
   * @param capacity rows of its receive region
   * @param bitsInPlace widest elements of results that experts write over the received rows; 0:
   *     none
   * @param inPlaceOnly whether there is no other memory for results
   */
  public record Sizes(
      int rank, int ranks, int hidden, int capacity, int bitsInPlace, boolean inPlaceOnly) {
    /** Sizes as a configuration has them. */
    public static Sizes of(BufferConfig config, int rank, int capacity) {
      return new Sizes(
          rank,
          Objects.requireNonNull(config.placement(), "settled placement").ranks(),
          config.hidden(),
          capacity,
          config.highThroughput().map(HighThroughputConfig::combineInPlace).orElse(false)
              ? Limits.rowDType(config).bits()
              : 0,
          Limits.combinesInPlaceOnly(config));
    }
  }

  final Sizes sizes;
  private final Delivery delivery;
  private final TensorView[] views = views(Array.values().length);
  private final TensorView[] counted = views(Count.values().length);
  private final TensorView[] combineInputs = views(DType.values().length);

  private DType dtype = DType.BF16;

  /** Elements of a row. */
  private long hidden;

  private @Nullable DType scaleDtype;
  private long scalesPerRow;
  private boolean hasGlobalScales;
  boolean cached;
  private @Nullable PooledHandle handle;

  private DispatchResult(Sizes sizes, Delivery delivery, Lifetime lifetime, E end) {
    super(lifetime, end);
    this.sizes = sizes;
    this.delivery = delivery;
  }

  /** A result in one layout, without a dispatch. */
  public static <E extends ResultEnd> DispatchResult<E> of(
      Layout layout, Sizes sizes, Delivery delivery, Lifetime lifetime, E end) {
    return layout == Layout.FLAT
        ? new Flat<>(sizes, delivery, lifetime, end)
        : new Grouped<>(sizes, delivery, lifetime, end);
  }

  private static TensorView[] views(int count) {
    TensorView[] views = new TensorView[count];
    Arrays.setAll(views, i -> new TensorView());
    return views;
  }

  @Override
  final void begin(long next, boolean inGraph) {
    super.begin(next, inGraph);
    handle = null;
  }

  /**
   * Describes the dispatch that begins.
   *
   * @param again whether it uses the routes of an earlier one, and sends only the payload
   */
  public final void describe(Tokens tokens, boolean again) {
    Tensor given = tokens.scales();
    dtype = tokens.x().dtype();
    hidden = tokens.x().size(1);
    scaleDtype = given == null ? null : given.dtype();
    scalesPerRow = tokens.scalesPerRow();
    hasGlobalScales = tokens.globalScales() != null;
    cached = again;
  }

  /** The dispatch delivers, or has delivered, along the routes of {@code routes}. */
  public final void deliver(PooledHandle routes) {
    handle = routes;
  }

  /** The handle, once rows and, unless the caller fixed their number, counts have arrived. */
  final PooledHandle arrived() {
    awaitEnd();
    PooledHandle routes = delivered(handle);
    if (!routes.staticSizing) {
      routes.awaitCounts();
    }
    return routes;
  }

  /** The same once counts have arrived. */
  final PooledHandle counted() {
    PooledHandle routes = arrived();
    routes.awaitCounts();
    return routes;
  }

  /**
   * Arrays of which the dispatch leaves rows untouched: padding, and those behind the rows that
   * were routed here. All rows of the tensor need memory, because the caller may touch them.
   */
  private void require(Array array, DType type, long elements) {
    if (!delivery.isLazy()) {
      return;
    }
    end.await();
    PooledHandle routes = handle;
    if (routes != null) {
      if (!routes.staticSizing) {
        routes.awaitCounts();
      }
      delivery.require(array, type.bytes(rows(routes) * elements));
    }
  }

  private static long rows(PooledHandle routes) {
    return routes.staticSizing ? routes.limit : routes.rows();
  }

  /** The first rows of an array. */
  final Tensor view(Array array, PooledHandle routes, DType type) {
    long address = delivery.address(array, type.bytes(1));
    return views[array.ordinal()].of(delivery.memory(array), address, type, rows(routes));
  }

  final Tensor view(Array array, PooledHandle routes, DType type, long columns) {
    return view(array, type, rows(routes), columns, columns);
  }

  private Tensor view(Array array, DType type, long rows, long columns, long elementsOfRow) {
    long address = delivery.address(array, type.bytes(elementsOfRow));
    return views[array.ordinal()].of(delivery.memory(array), address, type, rows, columns);
  }

  final Tensor view(Count count, DType type, long elements) {
    PooledHandle routes = counted();
    long address = delivery.address(count, routes);
    return counted[count.ordinal()].of(delivery.memory(routes), address, type, elements);
  }

  @Override
  public final long rows() {
    return rows(arrived());
  }

  @Override
  public final long receivedRows() {
    return counted().receivedRows();
  }

  @Override
  public final Tensor x() {
    PooledHandle routes = arrived();
    require(Array.ROWS, dtype, hidden);
    return view(Array.ROWS, routes, dtype, hidden);
  }

  @Override
  public final boolean hasScales() {
    arrived();
    return scaleDtype != null;
  }

  @Override
  public final Tensor scales() {
    PooledHandle routes = arrived();
    DType type = scaleDtype;
    if (type == null) {
      throw Arguments.missing("scales", "the payload had none");
    }
    if (routes.scaleLayout != ScaleLayout.ROW_MAJOR) {
      return view(
          Array.SCALE_COLUMNS,
          type,
          scalesPerRow,
          ScaleLayout.columnLength(type, rows(routes)),
          scalesPerRow);
    }
    require(Array.SCALES, type, scalesPerRow);
    return view(Array.SCALES, routes, type, scalesPerRow);
  }

  @Override
  public final boolean hasGlobalScales() {
    arrived();
    return hasGlobalScales;
  }

  @Override
  public final Tensor globalScales() {
    PooledHandle routes = arrived();
    if (!hasGlobalScales) {
      throw Arguments.missing("globalScales", "the payload had none");
    }
    require(Array.GLOBAL_SCALES, DType.FP32, 1);
    return view(Array.GLOBAL_SCALES, routes, DType.FP32);
  }

  @Override
  public final boolean hasWeights() {
    return arrived().weighted && !cached;
  }

  /** The routes, if weights arrived with the rows. */
  final PooledHandle weighted() {
    PooledHandle routes = arrived();
    if (cached || !routes.weighted) {
      throw Arguments.missing("weights", "the routing had none, or the dispatch was a cached one");
    }
    return routes;
  }

  @Override
  public final Tensor alignedCounts() {
    return view(Count.ALIGNED, DType.INT32, counted().localExperts);
  }

  @Override
  public final Tensor counts() {
    return view(Count.RECEIVED, DType.INT32, counted().localExperts);
  }

  @Override
  public final Tensor sourceTokens() {
    return view(Array.SOURCE_TOKENS, arrived(), DType.INT32);
  }

  @Override
  public final Tensor sourceRanks() {
    return view(Array.SOURCE_RANKS, arrived(), DType.INT32);
  }

  @Override
  public final Tensor combineInput(DType type) {
    if (!type.summable()) {
      throw Arguments.invalid(
          ErrorCode.TYPE_NOT_SUMMED,
          "dtype",
          type.name(),
          "BF16, FP16 or FP32",
          "pass a type that combine can sum");
    }
    Array array = type.bits() <= sizes.bitsInPlace ? Array.ROWS : Array.COMBINE_INPUT;
    if (array != Array.ROWS && sizes.inPlaceOnly) {
      throw HighThroughputChecks.notInRegion("dtype", type);
    }
    require(array, type, hidden);
    return combineInputs[type.ordinal()].of(
        delivery.memory(array),
        delivery.address(array, type.bytes(sizes.hidden)),
        type,
        sizes.capacity,
        hidden);
  }

  @Override
  public final Optional<ReceiveOverflowException> overflow() {
    PooledHandle routes = counted();
    return routes.neededRows() > routes.limit
        ? Optional.of(new ReceiveOverflowException(sizes.rank, routes.neededRows(), routes.limit))
        : Optional.empty();
  }

  @Override
  public final DispatchHandle handle() {
    PooledHandle routes = arrived();
    routes.handOut();
    return routes;
  }

  /** One row per token. */
  private static final class Flat<E extends ResultEnd> extends DispatchResult<E>
      implements FlatDispatch {
    Flat(Sizes sizes, Delivery delivery, Lifetime lifetime, E end) {
      super(sizes, delivery, lifetime, end);
    }

    @Override
    public boolean hasChoices() {
      arrived();
      return !cached;
    }

    @Override
    public Tensor topkIdx() {
      PooledHandle routes = arrived();
      if (cached) {
        throw Arguments.missing("topkIdx", "a cached dispatch does not send choices again");
      }
      return view(Array.CHOICES, routes, DType.INT64, routes.topK);
    }

    @Override
    public Tensor topkWeights() {
      PooledHandle routes = weighted();
      return view(Array.WEIGHTS, routes, DType.FP32, routes.topK);
    }

    @Override
    public Tensor rankOffsets() {
      return view(Count.RANK_OFFSETS, DType.INT64, sizes.ranks + 1L);
    }
  }

  /** One row per token and local expert. */
  private static final class Grouped<E extends ResultEnd> extends DispatchResult<E>
      implements GroupedDispatch {
    Grouped(Sizes sizes, Delivery delivery, Lifetime lifetime, E end) {
      super(sizes, delivery, lifetime, end);
    }

    @Override
    public Tensor expertOffsets() {
      return view(Count.EXPERT_OFFSETS, DType.INT64, counted().localExperts + 1L);
    }

    @Override
    public Tensor rowWeights() {
      return view(Array.WEIGHTS, weighted(), DType.FP32);
    }
  }
}
