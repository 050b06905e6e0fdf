package org.ep4j.engine.lowlatency;

import org.ep4j.config.Layout;
import org.jspecify.annotations.Nullable;

/**
 * What callers see of one set of outputs in both layouts, in calls with any number of experts. Kept
 * are the views for the experts of the buffer, and those for the last smaller number.
 */
public final class ViewsByExperts {
  private final LowLatencyViews.Outputs outputs;
  private final OutputShape shape;
  private final LowLatencyViews expertMajor;
  private final LowLatencyViews rankMajor;

  /** EXPERT_MAJOR in the last call with fewer experts than the buffer, and their number. */
  private @Nullable LowLatencyViews ofFewer;

  private int fewer;

  /** Views of {@code outputs}, whose arrays beside rows and scales never move. */
  public ViewsByExperts(LowLatencyViews.Outputs outputs, OutputShape shape) {
    this.outputs = outputs;
    this.shape = shape;
    expertMajor = new LowLatencyViews(outputs, shape, Layout.EXPERT_MAJOR, shape.experts());
    rankMajor = new LowLatencyViews(outputs, shape, Layout.RANK_MAJOR, shape.experts());
  }

  /**
   * Views of the outputs of a dispatch.
   *
   * @param experts experts of the call on this rank
   */
  public LowLatencyViews of(Layout layout, int experts) {
    if (layout == Layout.RANK_MAJOR) {
      return rankMajor;
    }
    if (experts == shape.experts()) {
      return expertMajor;
    }
    LowLatencyViews views = ofFewer;
    if (views == null || fewer != experts) {
      views = new LowLatencyViews(outputs, shape, Layout.EXPERT_MAJOR, experts);
      ofFewer = views;
      fewer = experts;
    }
    return views;
  }

  /** Drops the views of rows and scales after these have moved. */
  public void forgetRows() {
    expertMajor.forgetRows();
    rankMajor.forgetRows();
    ofFewer = null;
  }
}
