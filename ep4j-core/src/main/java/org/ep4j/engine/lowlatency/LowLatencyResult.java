package org.ep4j.engine.lowlatency;

import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyHandle;
import org.ep4j.RankMajorDispatch;
import org.ep4j.config.Layout;
import org.ep4j.engine.Arguments;
import org.ep4j.execution.Event;
import org.ep4j.execution.ReceiveHook;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** The result of a low-latency dispatch, and its handle. */
public sealed class LowLatencyResult implements LowLatencyDispatch, LowLatencyHandle {
  /** The dispatch that a result shows. */
  public interface Dispatched {
    /** Its state. */
    Flight flight();

    /** Its outputs in its layout. */
    LowLatencyViews views();

    /** Its format. */
    LowLatencyFormat format();

    /** Order of the scales. */
    ScaleLayout scaleLayout();

    /** Choices of a token. */
    int topK();

    /** Whether weights travel. */
    boolean weighted();

    /** Its end. */
    Event event();
  }

  private final Dispatched dispatched;

  /** This result before its end; null in that result itself. */
  private final @Nullable LowLatencyResult pending;

  private LowLatencyResult(Dispatched dispatched, @Nullable LowLatencyResult pending) {
    this.dispatched = dispatched;
    this.pending = pending;
  }

  /** The result of a dispatch with rows in {@code layout}. */
  public static LowLatencyResult of(Layout layout, Dispatched dispatched) {
    return of(layout, dispatched, of(layout, dispatched, null));
  }

  private static LowLatencyResult of(
      Layout layout, Dispatched dispatched, @Nullable LowLatencyResult pending) {
    return layout == Layout.RANK_MAJOR
        ? new ByRank(dispatched, pending)
        : new LowLatencyResult(dispatched, pending);
  }

  final Dispatched dispatched() {
    return dispatched;
  }

  final LowLatencyViews views() {
    requireReadable();
    return dispatched.views();
  }

  private void requireReadable() {
    if (pending == null && dispatched.flight().awaitsHook()) {
      dispatched.flight().requireSent();
    } else {
      dispatched.flight().requireResults();
    }
  }

  @Override
  public final Tensor x() {
    return views().rows(dispatched.format());
  }

  @Override
  public final boolean hasScales() {
    requireReadable();
    return dispatched.format().format() != RowFormat.BF16;
  }

  @Override
  public final Tensor scales() {
    Tensor scales = views().scales(dispatched.format(), dispatched.scaleLayout());
    if (scales == null) {
      throw Arguments.missing("scales", "the rows are BF16");
    }
    return scales;
  }

  @Override
  public final boolean hasWeights() {
    requireReadable();
    return dispatched.weighted();
  }

  @Override
  public Tensor rowWeights() {
    LowLatencyViews views = views();
    if (!dispatched.weighted()) {
      throw Arguments.missing("rowWeights", "the dispatch had no deliverWeights");
    }
    return views.rowWeights();
  }

  @Override
  public final Tensor counts() {
    return views().receiveCount();
  }

  @Override
  public final Tensor srcInfo() {
    return views().sourceInfo();
  }

  @Override
  public final Tensor layoutRange() {
    return views().layoutRange();
  }

  @Override
  public final LowLatencyHandle handle() {
    return this;
  }

  @Override
  public final LowLatencyDispatch pending() {
    return pending == null ? this : pending;
  }

  @Override
  public final ReceiveHook hook() {
    return dispatched.flight().hook();
  }

  @Override
  public final Event event() {
    return dispatched.event();
  }

  /** The result of a dispatch with RANK_MAJOR rows. */
  private static final class ByRank extends LowLatencyResult implements RankMajorDispatch {
    ByRank(Dispatched dispatched, @Nullable LowLatencyResult pending) {
      super(dispatched, pending);
    }

    @Override
    public Tensor topkIdx() {
      return views().choices(dispatched().topK());
    }

    @Override
    public Tensor rowWeights() {
      throw Arguments.missing("rowWeights", "RANK_MAJOR rows have topkWeights");
    }

    @Override
    public Tensor topkWeights() {
      LowLatencyViews views = views();
      if (!dispatched().weighted()) {
        throw Arguments.missing("topkWeights", "the routing of the dispatch had none");
      }
      return views.choiceWeights(dispatched().topK());
    }
  }
}
