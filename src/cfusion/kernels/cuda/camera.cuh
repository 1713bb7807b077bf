// A camera is its kind (0 pinhole, 1 orthographic), fx, fy, cx, cy; conventions in reference/pulling.py.

struct Camera {
    double kind, fx, fy, cx, cy;

    __device__ double across(int j) const { return (j - cx) / fx; }
    __device__ double down(int i) const { return (i - cy) / fy; }
};

struct Motion {
    double m[3][4];
};
