// A camera is its kind (0 perspective, 1 orthographic), fx, fy, cx, cy, k1, k2, p1, p2, k3; formulas in numpy/cameras.py.

#define UNBENDING 20

struct Slopes {
    double x, y;
};

struct Camera {
    double kind, fx, fy, cx, cy, k1, k2, p1, p2, k3;

    __device__ bool bent() const { return k1 != 0 || k2 != 0 || p1 != 0 || p2 != 0 || k3 != 0; }

    __device__ Slopes bend(Slopes s) const {
        const double q = s.x * s.x + s.y * s.y, radial = 1 + q * (k1 + q * (k2 + q * k3));
        return {s.x * radial + 2 * p1 * s.x * s.y + p2 * (q + 2 * s.x * s.x),
                s.y * radial + p1 * (q + 2 * s.y * s.y) + 2 * p2 * s.x * s.y};
    }

    __device__ Slopes slopes(double u, double v) const {
        const Slopes there = {(u - cx) / fx, (v - cy) / fy};
        if (!bent()) return there;
        Slopes s = there;
        for (int k = 0; k < UNBENDING; k++) {
            const double q = s.x * s.x + s.y * s.y, radial = 1 + q * (k1 + q * (k2 + q * k3));
            const double along = 2 * p1 * s.x * s.y + p2 * (q + 2 * s.x * s.x);
            const double down = p1 * (q + 2 * s.y * s.y) + 2 * p2 * s.x * s.y;
            s = {(there.x - along) / radial, (there.y - down) / radial};
        }
        return s;
    }

    // u and v of slopes
    __device__ Slopes pixel(Slopes s) const {
        if (bent()) s = bend(s);
        return {fx * s.x + cx, fy * s.y + cy};
    }
};

struct Motion {
    double m[3][4];
};

// A view's camera, its motion from or to the reference, and a number of its own.
struct Placed {
    Camera camera;
    Motion motion;
    double agreement;
};
