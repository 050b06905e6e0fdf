package org.ep4j.engine.lowlatency;

import java.util.Arrays;
import org.ep4j.config.Layout;
import org.ep4j.engine.TensorMemory;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * What callers see of one set of outputs in one {@link Layout}. Tensors are made on first use and
 * then kept.
 */
public final class LowLatencyViews {
  /** One set of outputs: the addresses of its arrays. */
  public interface Outputs extends TensorMemory {
    /** The rows. */
    long rows();

    /**
     * The scales of the rows.
     *
     * @param rows all rows of the layout, with padding
     */
    long scales(LowLatencyFormat format, long rows);

    /** For each row, the number of its token on its source. */
    long sourceTokens();

    /** Rows of each source in a group; RANK_MAJOR: of each source. */
    long ranges();

    /** Rows in each group. */
    long rowCounts();

    /** RANK_MAJOR: the choices of each row. */
    long rowChoices();

    /** RANK_MAJOR: the weights of the choices; else the weights of the rows. */
    long rowWeights();
  }

  private final Outputs outputs;
  private final int groups;

  /** Rows of all groups of the buffer, with padding. */
  private final long allRows;

  private final long capacity;

  /** By index of a format: the format whose views are kept. */
  private final @Nullable LowLatencyFormat[] formats = new LowLatencyFormat[LowLatencyFormat.COUNT];

  /** By index of a format. */
  private final @Nullable Tensor[] rows = new Tensor[LowLatencyFormat.COUNT];

  private final @Nullable Tensor[] scales = new Tensor[LowLatencyFormat.COUNT];
  private final @Nullable Tensor[] scaleColumns = new Tensor[LowLatencyFormat.COUNT];

  /** By topK. */
  private final @Nullable Tensor[] choices;

  private final @Nullable Tensor[] choiceWeights;
  private final Tensor sourceInfo;

  /** EXPERT_MAJOR. */
  private final Tensor rowWeights;

  private final Tensor layoutRange;
  private final Tensor receiveCount;

  /**
   * Views of {@code outputs}, whose arrays beside rows and scales never move.
   *
   * @param shape shape of the outputs
   * @param experts experts of the calls on this rank, the first of the shape
   */
  public LowLatencyViews(Outputs outputs, OutputShape shape, Layout layout, int experts) {
    this.outputs = outputs;
    groups = shape.withExperts(experts).groups(layout);
    capacity = shape.capacity(layout);
    allRows = shape.groups(layout) * capacity;
    choices = new Tensor[shape.topK() + 1];
    choiceWeights = new Tensor[shape.topK() + 1];
    sourceInfo = outputs.view(outputs.sourceTokens(), DType.INT32, groups, capacity);
    rowWeights = outputs.view(outputs.rowWeights(), DType.FP32, groups, capacity);
    layoutRange =
        layout == Layout.RANK_MAJOR
            ? outputs.view(outputs.ranges(), DType.INT64, groups)
            : outputs.view(outputs.ranges(), DType.INT64, groups, shape.ranks());
    receiveCount = outputs.view(outputs.rowCounts(), DType.INT32, groups);
  }

  /** Drops the views of rows and scales after these have moved. */
  public void forgetRows() {
    Arrays.fill(formats, null);
    Arrays.fill(rows, null);
    Arrays.fill(scales, null);
    Arrays.fill(scaleColumns, null);
  }

  /** Drops the views of other formats with the same index, whose rows have another length. */
  private void keep(LowLatencyFormat format) {
    int index = format.index();
    LowLatencyFormat kept = formats[index];
    if (kept == null || kept.hidden() != format.hidden()) {
      formats[index] = format;
      rows[index] = null;
      scales[index] = null;
      scaleColumns[index] = null;
    }
  }

  Tensor rows(LowLatencyFormat format) {
    keep(format);
    Tensor tensor = rows[format.index()];
    if (tensor == null) {
      tensor = outputs.view(outputs.rows(), format.dtype(), groups, capacity, format.hidden());
      rows[format.index()] = tensor;
    }
    return tensor;
  }

  /** Null if the format has no scales. */
  @Nullable Tensor scales(LowLatencyFormat format, ScaleLayout order) {
    keep(format);
    boolean byColumns = order == ScaleLayout.COLUMN_MAJOR;
    @Nullable Tensor[] made = byColumns ? scaleColumns : scales;
    Tensor tensor = made[format.index()];
    if (tensor == null && format.scales() > 0) {
      long address = outputs.scales(format, allRows);
      tensor =
          byColumns
              ? outputs.view(
                  address,
                  format.columnDType(),
                  groups,
                  format.columns(),
                  format.columnLength(capacity))
              : outputs.view(address, format.scaleDType(), groups, capacity, format.scales());
      made[format.index()] = tensor;
    }
    return tensor;
  }

  Tensor sourceInfo() {
    return sourceInfo;
  }

  Tensor rowWeights() {
    return rowWeights;
  }

  Tensor layoutRange() {
    return layoutRange;
  }

  Tensor receiveCount() {
    return receiveCount;
  }

  Tensor choices(int topK) {
    return choices(choices, outputs.rowChoices(), DType.INT64, topK);
  }

  Tensor choiceWeights(int topK) {
    return choices(choiceWeights, outputs.rowWeights(), DType.FP32, topK);
  }

  private Tensor choices(@Nullable Tensor[] made, long address, DType dtype, int topK) {
    Tensor tensor = made[topK];
    if (tensor == null) {
      tensor = outputs.view(address, dtype, groups, capacity, topK);
      made[topK] = tensor;
    }
    return tensor;
  }
}
