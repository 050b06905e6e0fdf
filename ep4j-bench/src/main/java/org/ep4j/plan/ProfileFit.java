package org.ep4j.plan;

import java.math.BigDecimal;
import java.math.MathContext;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import java.util.function.ToLongFunction;
import java.util.stream.Collectors;
import java.util.stream.DoubleStream;
import java.util.stream.IntStream;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.hipparchus.exception.MathRuntimeException;
import org.hipparchus.linear.Array2DRowRealMatrix;
import org.hipparchus.linear.ArrayRealVector;
import org.hipparchus.linear.RealMatrix;
import org.hipparchus.linear.RealVector;
import org.hipparchus.optim.nonlinear.vector.leastsquares.LeastSquaresBuilder;
import org.hipparchus.optim.nonlinear.vector.leastsquares.LeastSquaresProblem;
import org.hipparchus.optim.nonlinear.vector.leastsquares.LevenbergMarquardtOptimizer;
import org.hipparchus.util.Pair;

/**
 * A profile whose constants of high throughput on one node follow from measured kernels: the values
 * for which the squares of the relative errors have the least sum. Constants that the rows do not
 * determine keep their value. The search is that of Levenberg and Marquardt over logarithms, so
 * values stay positive.
 */
public final class ProfileFit {
  /** More steps than a search with six constants needs. */
  private static final int MAX_STEPS = 1000;

  /** Difference of logarithms for derivatives. */
  private static final double STEP = 1e-6;

  /** A constant of 0 has no logarithm. */
  private static final double LEAST_START = 1e-3;

  /** A shorter time than this is none, microseconds; no rate is so low. */
  private static final double NOTHING = 1e-3;

  /**
   * A measured operation.
   *
   * @param request its shape: high throughput on one node
   * @param combine whether it is the combine of the request instead of the dispatch
   * @param micros of its kernels
   * @param callMicros of the whole call
   */
  public record Row(PlanRequest request, boolean combine, double micros, double callMicros) {}

  /**
   * A measured operation beside its prediction.
   *
   * @param row what was measured
   * @param micros predicted by the fitted profile
   */
  public record Fitted(Row row, double micros) {
    /** Relative error of the prediction; 0.1: 10 % too long. */
    public double error() {
      return micros / row.micros - 1;
    }
  }

  private final MachineProfile base;
  private final List<Row> rows;
  private final List<Traffic> traffic;
  private final List<ProfileConstant> constants;

  private ProfileFit(MachineProfile base, List<Row> rows) {
    this.base = base;
    this.rows = rows;
    traffic = rows.stream().map(row -> Traffic.of(row.request)).toList();
    constants = determined(rows);
  }

  /**
   * Fits a profile.
   *
   * @param base profile that gives all other constants
   * @param rows measured operations
   * @param source origin of the fitted values
   * @throws InvalidArgumentException if the rows determine no constant
   */
  public static MachineProfile of(MachineProfile base, List<Row> rows, String source) {
    ProfileFit fit = new ProfileFit(base, List.copyOf(rows));
    if (fit.constants.isEmpty()) {
      throw refused(rows.size() + " rows that differ in nothing");
    }
    Map<ProfileConstant, MachineProfile.Sourced> found = new EnumMap<>(ProfileConstant.class);
    double[] values = fit.search();
    for (int i = 0; i < values.length; i++) {
      found.put(fit.constants.get(i), fit.constants.get(i).measured(rounded(values[i]), source));
    }
    DoubleStream beside = rows.stream().mapToDouble(row -> row.callMicros - row.micros);
    found.put(
        ProfileConstant.CALL_US, ProfileConstant.CALL_US.measured(rounded(middle(beside)), source));
    return base.with(source, found);
  }

  /** What a profile predicts for measured operations. */
  public static List<Fitted> predict(MachineProfile profile, List<Row> rows) {
    List<Fitted> fitted = new ArrayList<>();
    for (Row row : rows) {
      fitted.add(new Fitted(row, micros(profile, row, Traffic.of(row.request))));
    }
    return fitted;
  }

  private static InvalidArgumentException refused(String value) {
    return new InvalidArgumentException(
        ErrorCode.PLAN_MEASUREMENTS,
        "measured runs",
        value,
        "dispatches or combines that differ in SMs or in bytes",
        "measure with several values of --sms and --tokens");
  }

  /**
   * A rate or a time needs rows that differ in what it multiplies. Dispatches and combines have
   * rates of their own, so rows of one of them must differ. Numbers of SMs alone do not determine
   * the fixed time: the measured curves are fitted as well without any.
   */
  private static List<ProfileConstant> determined(List<Row> rows) {
    List<ProfileConstant> constants = new ArrayList<>();
    Map<Boolean, List<Row>> kinds = rows.stream().collect(Collectors.groupingBy(Row::combine));
    boolean fixed =
        kinds.values().stream()
            .anyMatch(kind -> groups(kind, ProfileFit::sms, ProfileFit::bytes) > 0);
    if (fixed) {
      constants.add(ProfileConstant.KERNEL_US);
    }
    addRates(
        constants,
        rows,
        fixed,
        row -> !row.combine,
        ProfileConstant.NVLINK_DISPATCH_GBPS,
        ProfileConstant.SM_GBPS);
    addRates(
        constants,
        rows,
        fixed,
        Row::combine,
        ProfileConstant.NVLINK_COMBINE_GBPS,
        ProfileConstant.SM_COMBINE_GBPS);
    if (kinds.values().stream()
        .anyMatch(kind -> groups(kind, ProfileFit::rowBytes, ProfileFit::sms) > 1)) {
      constants.add(ProfileConstant.SM_ROW_US);
    }
    return constants;
  }

  private static void addRates(
      List<ProfileConstant> constants,
      List<Row> rows,
      boolean fixed,
      Predicate<Row> kind,
      ProfileConstant link,
      ProfileConstant sm) {
    List<Row> those = rows.stream().filter(kind).toList();
    boolean several = those.stream().map(row -> row.request.sms()).distinct().count() > 1;
    if (several || (fixed && !those.isEmpty())) {
      constants.add(link);
    }
    if (several) {
      constants.add(sm);
    }
  }

  /** Groups of rows of the same {@code key} in which {@code value} differs. */
  private static long groups(List<Row> rows, ToLongFunction<Row> key, ToLongFunction<Row> value) {
    Map<Long, Set<Long>> groups = new HashMap<>();
    for (Row row : rows) {
      groups
          .computeIfAbsent(key.applyAsLong(row), _ -> new HashSet<>())
          .add(value.applyAsLong(row));
    }
    return groups.values().stream().filter(group -> group.size() > 1).count();
  }

  private static int sms(Row row) {
    return row.request.sms();
  }

  private static long bytes(Row row) {
    return (long) row.request.tokens() * rowBytes(row);
  }

  private static int rowBytes(Row row) {
    PlanDType dtype = row.combine ? PlanDType.BF16 : row.request.dtype();
    return dtype.rowBytes(row.request.hidden());
  }

  private double[] search() {
    double[] start = new double[constants.size()];
    for (int i = 0; i < start.length; i++) {
      start[i] = Math.log(Math.max(LEAST_START, base.value(constants.get(i))));
    }
    LeastSquaresProblem problem =
        new LeastSquaresBuilder()
            .start(start)
            .target(new double[rows.size()])
            .model(this::errorsAndDerivatives)
            .lazyEvaluation(false)
            .maxEvaluations(MAX_STEPS)
            .maxIterations(MAX_STEPS)
            .build();
    try {
      RealVector found = new LevenbergMarquardtOptimizer().optimize(problem).getPoint();
      return Arrays.stream(found.toArray()).map(Math::exp).toArray();
    } catch (MathRuntimeException e) {
      throw refused(rows.size() + " rows that no constants fit (" + e.getMessage() + ")");
    }
  }

  private Pair<RealVector, RealMatrix> errorsAndDerivatives(RealVector point) {
    double[] here = errors(point.toArray());
    RealMatrix derivatives = new Array2DRowRealMatrix(here.length, constants.size());
    for (int i = 0; i < constants.size(); i++) {
      double[] moved = point.toArray();
      moved[i] += STEP;
      double[] there = errors(moved);
      for (int r = 0; r < here.length; r++) {
        derivatives.setEntry(r, i, (there[r] - here[r]) / STEP);
      }
    }
    return new Pair<>(new ArrayRealVector(here, false), derivatives);
  }

  /** Logarithms of predicted over measured times, for logarithms of the constants. */
  private double[] errors(double[] logarithms) {
    Map<ProfileConstant, MachineProfile.Sourced> tried = new EnumMap<>(ProfileConstant.class);
    for (int i = 0; i < logarithms.length; i++) {
      tried.put(constants.get(i), constants.get(i).measured(Math.exp(logarithms[i]), "a step"));
    }
    MachineProfile profile = base.with("fit", tried);
    return IntStream.range(0, rows.size())
        .mapToDouble(
            r -> Math.log(micros(profile, rows.get(r), traffic.get(r)) / rows.get(r).micros))
        .toArray();
  }

  private static double micros(MachineProfile profile, Row row, Traffic traffic) {
    Operation operation =
        row.combine
            ? Operation.combine(profile, row.request)
            : Operation.dispatch(profile, row.request);
    return HighThroughputModel.predict(operation, traffic).micros();
  }

  private static double middle(DoubleStream values) {
    double[] sorted = values.sorted().toArray();
    int half = sorted.length / 2;
    return sorted.length % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  }

  /** Three significant digits, and nothing below a nanosecond: measurements have no more. */
  private static double rounded(double value) {
    return value < NOTHING ? 0 : new BigDecimal(value).round(new MathContext(3)).doubleValue();
  }
}
